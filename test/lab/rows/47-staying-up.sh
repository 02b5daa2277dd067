# start = boot on kernel ESP, against strongSwan and Libreswan: the peer is killed, or unreachable for a while. These mostly wait.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 600
interop '^TestKernelStayingUp$' -test.parallel 5
