package pagetest

import (
	"github.com/stretchr/testify/assert"
)

// textContrast computes the contrast (WCAG 2.2, 1.4.3) of each text on the page
// with what is painted behind it, and lists those that have too little.
const textContrast = `(() => {
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 1;
	const context = canvas.getContext("2d", { willReadFrequently: true });
	const rgba = (color) => {
		context.clearRect(0, 0, 1, 1);
		context.fillStyle = color;
		context.fillRect(0, 0, 1, 1);
		return [...context.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
	};
	const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
	const over = (top, below) => top.map((v, i) => i === 3 ? 1 : v * top[3] + below[i] * (1 - top[3]));
	const behind = (e) => {
		if (!e) return [1, 1, 1, 1];
		const color = rgba(getComputedStyle(e).backgroundColor);
		return color[3] === 1 ? color : over(color, behind(e.parentElement));
	};
	const low = [];
	let seen = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || e.closest("noscript, template, script, .hidden") || !e.getClientRects().length) continue;
		seen++;
		const style = getComputedStyle(e);
		const back = behind(e);
		const [a, b] = [luminance(over(rgba(style.color), back)), luminance(back)];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) low.push(ratio.toFixed(2) + ": " + walker.currentNode.data.slice(0, 40));
	}
	return { seen, low };
})()`

func (b *tab) contrast() {
	b.Helper()
	result := eval[struct {
		Seen int
		Low  []string
	}](b, textContrast)
	assert.Greater(b, result.Seen, 50, "texts")
	assert.Empty(b, result.Low, "texts of too little contrast")
}
