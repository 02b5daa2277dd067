module cygnet

go 1.26.0

require (
	filippo.io/bigmod v0.1.0 // indirect
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
