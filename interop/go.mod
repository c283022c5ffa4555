module holdfast/interop

go 1.26

replace holdfast => ../
