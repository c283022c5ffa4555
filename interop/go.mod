module holdfast/interop

go 1.26.0

replace holdfast => ../

require holdfast v0.0.0-00010101000000-000000000000

require github.com/go-zookeeper/zk v1.0.4

require golang.org/x/sys v0.49.0 // indirect
