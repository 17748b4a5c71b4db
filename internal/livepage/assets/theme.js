// Sets a chosen theme before anything is drawn. Without a choice the system's
// holds. Blocked storage is no error: the choice then lasts as long as the page.
"use strict";
try {
  const theme = localStorage.getItem("warmroute-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage */ }
