#!/bin/sh
# One API server and one etcd in the namespaces that we are in; see scripts/test-cluster.
set -eu
etcd=$1 gate=$2 directory=$3
root=$PWD
cd "$directory"

fail() {
  echo "FAILED: $1; logs are in $directory" >&2
  exit 1
}

milliseconds() {
  date +%s%3N
}

# eventually WHAT SECONDS COMMAND...: prints how long it took.
eventually() {
  what=$1 seconds=$2 began=$(milliseconds)
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $(($(milliseconds) - began)) -lt $((seconds * 1000)) ] || fail "$what, within $seconds s"
    sleep 0.1
  done
  echo "   $what: $(($(milliseconds) - began)) ms"
}


ready() {
  curl -sfk -m 2 -H 'Authorization: Bearer admin-token' https://127.0.0.1:6443/readyz
}

# put PATH JSON [METHOD [FORM]]: creates, or replaces what is there.
put() {
  curl -sSfk -m 5 -X "${3:-POST}" -H 'Authorization: Bearer admin-token' \
    -H "Content-Type: application/${4:-json}" -d "$2" "https://127.0.0.1:6443$1" >/dev/null
}

start_etcd() {
  "$etcd" --data-dir "$1" --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
    >>etcd.log 2>&1 &
  etcd_pid=$!
}

start_server() {
  "$KUBE_APISERVER" --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 \
    --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --cert-dir="$directory/certs" \
    --service-account-issuer=https://fairlead.test --service-account-key-file=account.pub \
    --service-account-signing-key-file=account.key --authorization-mode=RBAC \
    --token-auth-file=tokens.csv --service-cluster-ip-range=10.96.0.0/16 \
    --feature-gates=WatchList="$gate" >>server.log 2>&1 &
  server_pid=$!
}

# As a machine that loses power: a kube-apiserver takes a minute to end by itself.
stop() {
  kill -KILL "$1"
  wait "$1" 2>/dev/null || true
}

slice() {
  cat <<JSON
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-1",
"labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","ports":[{"name":"","port":8080}],
"endpoints":[{"addresses":["$1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"web-0"}}]}
JSON
}

answers() {
  [ "$(curl -sf -m 1 http://10.96.0.50/)" = "$1" ]
}

# says WORDS COMMAND...: what the program answers to a question has the words.
says() {
  words=$1
  shift
  node "$root/dist/main.js" "$@" >answer 2>&1 || true
  grep -q "$words" answer || fail "$*: not \"$words\" but $(cat answer)"
}

# served PATTERN: what the API server counts.
served() {
  curl -sfk -H 'Authorization: Bearer admin-token' https://127.0.0.1:6443/metrics | grep "$1"
}

figure() {
  curl -sf http://127.0.0.1:10249/metrics | grep "^$1"
}

ip link set lo up
ip link add veth0 type veth peer name veth1
ip address add 10.244.0.1/24 dev veth0
ip address add 10.244.0.5/32 dev veth0
ip address add 10.244.0.6/32 dev veth0
ip link set veth0 up
ip link set veth1 up
ip route add default dev veth0

openssl genrsa -out account.key 2048 2>/dev/null
openssl rsa -in account.key -pubout -out account.pub 2>/dev/null
printf '%s\n' admin-token,admin,admin,system:masters proxy-token,system:kube-proxy,proxy >tokens.csv
cat >kubeconfig <<YAML
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: main, user: proxy}}]
clusters: [{name: main, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: proxy, user: {token: proxy-token}}]
YAML
node -e '
  const { createServer } = require("node:http");
  for (const address of ["10.244.0.5", "10.244.0.6"]) {
    const server = createServer((_, response) => response.end(address));
    server.listen(8080, address);
  }
' &

# The API server is away at the start.
node "$root/dist/main.js" --kubeconfig kubeconfig --hostname-override node-1 --proxy-mode=nftables \
  --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
  --conntrack-tcp-timeout-close-wait=0 >fairlead.log 2>&1 &
fairlead=$!
eventually 'a missing list is told' 30 grep 'Still waiting for the first list' fairlead.log
curl -sf http://127.0.0.1:10256/livez | grep -q '"missingLists":{"services"' || fail 'health'

start_etcd data
start_server
eventually 'the API server is ready' 60 ready
put /api/v1/nodes '{"kind":"Node","apiVersion":"v1","metadata":{"name":"node-1"},
  "status":{"addresses":[{"type":"InternalIP","address":"10.244.0.1"}]}}'
put /api/v1/namespaces/default/services '{"kind":"Service","apiVersion":"v1",
  "metadata":{"name":"web","labels":{"app":"web"}},
  "spec":{"clusterIP":"10.96.0.50","ports":[{"port":80,"targetPort":8080}]}}'
put /apis/discovery.k8s.io/v1/namespaces/default/endpointslices "$(slice 10.244.0.5)"
eventually 'the Service answers' 60 answers 10.244.0.5
nft list table ip fairlead | grep -q '10\.96\.0\.50' || fail 'nft does not list the Service'

path=/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1
put "$path" "$(slice 10.244.0.6)" PUT
eventually 'and follows its endpoint' 10 answers 10.244.0.6

# With the rights of system:node-proxier, which may not read pods.
says 'pod default/web-0 is asked for, and 10.244.0.6 ' explain default/web:80 --from pod/default/web-0
says 'not permitted to get pods; give its address instead' explain default/web:80 --from pod/default/web-1
echo '   and pods are asked for'

if grep -q 'protobuf is asked for' fairlead.log; then fail 'protobuf was not given'; fi

# The API server comes and goes; what etcd held is kept for later.
stop $server_pid
says 'cannot reach https://127.0.0.1:6443' explain default/web:80 --from pod/default/web-0
stop $etcd_pid
cp -r data earlier
start_etcd data
start_server
eventually 'the API server is back' 60 ready
put "$path" "$(slice 10.244.0.5)" PUT
eventually 'and is followed again' 60 answers 10.244.0.5

# A node that is stopped does not read. The server ends its watch.
node -e '
  const at = (i) => ({ addresses: [`10.245.${i >> 8}.${i % 256}`] });
  const endpoints = Array.from({ length: 1000 }, (_, i) => at(i));
  const metadata = { name: "crowd-1", labels: { "kubernetes.io/service-name": "crowd" } };
  const kind = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4" };
  console.log(JSON.stringify({ ...kind, metadata, ports: [{ port: 80 }], endpoints }));
' >crowd
put "${path%/web-1}" @crowd
kill -STOP $fairlead
i=0
while [ $((i += 1)) -le 600 ]; do
  put "${path%/web-1}/crowd-1" '{"metadata":{"annotations":{"n":"'$i'"}}}' PATCH merge-patch+json
done
put "$path" "$(slice 10.244.0.6)" PUT
served '^apiserver_terminated_watchers_total.*endpointslices' >/dev/null || fail 'the watch goes on'
kill -CONT $fairlead
eventually 'and is followed after a stop' 10 answers 10.244.0.6
put "$path" "$(slice 10.244.0.5)" PUT
eventually 'and goes on' 10 answers 10.244.0.5

# Its data are set back: it knows nothing of the last change, nor of some hundred others.
i=0
while [ $((i += 1)) -le 150 ]; do
  put "$path" "$(slice 10.244.0.6)" PUT
  put "$path" "$(slice 10.244.0.5)" PUT
done
stop $server_pid
stop $etcd_pid
start_etcd earlier
start_server
eventually 'the API server is set back' 60 ready
eventually 'and is believed' 400 answers 10.244.0.6

figure fairlead_lists_total | sed 's/^/   /'
kill -TERM $fairlead
wait $fairlead || fail "the program ended with $?"
echo '   ended well'
