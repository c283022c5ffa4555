module holdfast/contrib/migrateholdfast

go 1.26.0

replace holdfast => ../..

require (
	github.com/golang-migrate/migrate/v4 v4.20.1
	github.com/lib/pq v1.12.3
	holdfast v0.0.0-00010101000000-000000000000
)

require golang.org/x/sys v0.49.0 // indirect
