# dataplane = "auto", the demonstration's: with ESP in the kernel it is the kernel's, and both gateways say so.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/demo
demo_says() { [ "$(grep -c '^gw-[ab]: cygnetd ready: .*, data plane kernel (the kernel accepts ESP SAs)$' "$LAB_OUT/demo.txt")" = 2 ]; }
"$LAB_BIN/demo" -bin "$LAB_BIN" -configs "$LAB/../../configs/site-to-site" >"$LAB_OUT/demo.txt" 2>&1; rc=$?
cat "$LAB_OUT/demo.txt"
check cygnet both "make demo, dataplane = auto" [ $rc = 0 ]
check cygnet both "both gateways say: data plane kernel" demo_says
