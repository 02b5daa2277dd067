# "ikectl bench" where the kernel has ESP: its data plane under each suite.
# build: ./cmd/cygnetd ./cmd/ikectl
# timeout: 180
for suite in aes256gcm16 chacha20poly1305 aes256-sha256; do
  out=$LAB_OUT/$suite
  "$LAB_BIN/ikectl" bench --dataplane kernel --suite $suite --mtu 1400 --each 200ms --json >"$out" 2>&1; rc=$?
  cat "$out"
  lines=$(grep -c '"dataplane":"kernel"' "$out") # as many as of the bare links
  tcp=$(sed -n 's/.*"dataplane":"kernel".*"test":"TCP, large windows","value":\([0-9.]*[1-9][0-9]*\),.*/\1/p' "$out")
  if [ $rc = 0 ] && [ "$lines" -gt 0 ] && [ "$lines" = "$(grep -c '"dataplane":"none"' "$out")" ] && [ -n "$tcp" ]; then
    result "ikectl bench" kernel $suite "ok: $lines figures, TCP ${tcp:0:6} Gbit/s in this VM"
  else
    result "ikectl bench" kernel $suite "FAIL: exit code $rc, $lines figures, TCP ${tcp:-without one}"
  fi
done
