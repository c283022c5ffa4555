module holdfast/contrib/atlasholdfast

go 1.26.0

replace holdfast => ../..

require (
	ariga.io/atlas v0.32.1-0.20250325101103-175b25e1c1b9
	holdfast v0.0.0-00010101000000-000000000000
)

require golang.org/x/sys v0.49.0 // indirect
