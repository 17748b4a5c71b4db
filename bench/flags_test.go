package bench_test

import "flag"

var (
	hours = flag.Bool("hours", false, "run the overload tables at full length: about half an hour")
	html  = flag.String("html", "", "file that TestOverloadTable writes its charts to")
)
