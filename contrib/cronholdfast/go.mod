module holdfast/contrib/cronholdfast

go 1.26.0

replace holdfast => ../..

require (
	github.com/netresearch/go-cron v0.9.1
	github.com/robfig/cron/v3 v3.0.1
	holdfast v0.0.0-00010101000000-000000000000
)

require golang.org/x/sys v0.49.0 // indirect
