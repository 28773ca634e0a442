#!/bin/sh
# Starts a server with an example in it, says where it is and what to ask it, and stays until Ctrl-C.
# usage: tools/run_example.sh BUILD [server flags]
set -eu
build=$1
shift
address=${VESTA_LISTEN:-127.0.0.1:4040}

"$build/vesta" server --data "$build/example-data" --listen "$address" --retention-profiles 10y \
    --log-level warn "$@" >/dev/null &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" || true' EXIT
trap 'exit 0' INT TERM

# Waits until it answers; what is there already is not stored again.
if ! "$build/vesta" push --quiet --retry-for 15s --url "http://$address" --service shop examples/shop.pb.gz; then
    kill -0 "$server" 2>/dev/null || echo "The server did not start: see above." >&2
    exit 1
fi
cat <<END
Vesta runs at http://$address (OTLP: 4317 for gRPC, 4318 for HTTP), with an example in it.
From another terminal:

    export VESTA_URL=http://$address
    $build/vesta top 'cpu{service.name="shop"}' --from 2026-11-15
    $build/vesta query timeline 'cpu{service.name="shop"}' --from 2026-11-15 --until 2026-11-16 --step 1h
    $build/vesta push --service mine FILE          # a profile of yours, in any format
    go tool pprof -top '$address/api/v1/profile.pb.gz?query=cpu&from=2026-11-15'

Ctrl-C ends it.
END
wait "$server"
