# cygnet at both ends on kernel ESP, and kernel against userspace.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^TestKernelOwn$'
