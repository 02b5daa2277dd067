# Libreswan on kernel ESP, both roles; and strongSwan against Libreswan, which checks the rig.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^(TestKernelRigItself|TestKernelLibreswan)$'
