# OpenIKED on kernel ESP, both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^TestKernelOpenIKED$'
