module cygnet

go 1.26.0

require (
	filippo.io/bigmod v0.1.0
	github.com/BurntSushi/toml v1.6.0
	github.com/sirupsen/logrus v1.10.2
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/crypto v0.59.0
	golang.org/x/sys v0.50.0
)

require github.com/vishvananda/netns v0.0.5 // indirect
