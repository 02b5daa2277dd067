# Collisions that a ferry forces, on kernel ESP with strongSwan: rekeys and Deletes of both sides that cross, both starting at once. In CI some of them.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 1500
# cpus: 2
interop '^TestKernel(Collision|Start)$' -test.parallel 5
