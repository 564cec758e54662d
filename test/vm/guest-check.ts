/**
 * Asks the running kernel, and the tools of the guest, for everything that the kernel suite needs,
 * and exits with 1 after naming all that is missing. Each probe runs in a network namespace of its
 * own. Needs root.
 */
import { execFile } from 'node:child_process';
import { release } from 'node:os';

/** Shell commands by capability. The last command succeeds if the capability is there. */
const probes: Readonly<Record<string, string>> = {
  'nf_tables: tables of all families': inTable('', ['ip', 'ip6', 'inet', 'bridge', 'netdev']),
  'nf_tables: NAT from concatenation maps, numgen': inTable(`
    map m {
      typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport;
    }
    chain c {
      type nat hook prerouting priority dstnat;
      dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @m
    }`),
  'nf_tables: masquerade, redirect': inTable(
    `chain c {
      type nat hook postrouting priority srcnat;
      masquerade fully-random
    }
    chain d {
      type nat hook output priority -100;
      meta l4proto tcp redirect to :1
    }`,
    ['ip', 'ip6'],
  ),
  'nf_tables: fib, ct, reject, limit, log, counter, jhash': inTable(`
    chain c {
      type filter hook input priority 0;
      fib daddr type local ct state new ct status dnat limit rate 1/second counter log reject
      meta mark set jhash ip saddr mod 2
    }`),
  'nf_tables: interval, timeout and dynamic sets': inTable(`
    set i { type ipv4_addr . ipv4_addr; flags interval; }
    map d { type ipv4_addr : ipv4_addr; flags dynamic,timeout; }
    chain c {
      type filter hook postrouting priority 0;
      update @d { ip saddr timeout 3h : ip daddr }
    }`),
  'nf_tables: flowtables': inTable(
    `flowtable f { hook ingress priority 0; devices = { lo }; }
    chain c {
      type filter hook forward priority 0;
      ct packets > 20 rt ipsec missing flow add @f
    }`,
    ['inet'],
  ),
  'nft_compat: xt matches and targets in iptables-nft': iptablesRules('iptables-nft-restore'),
  'nft_compat: the same for IPv6': iptablesRules('ip6tables-nft-restore'),
  'x_tables: iptables-legacy': iptablesRules('iptables-legacy-restore'),
  'x_tables: ip6tables-legacy': iptablesRules('ip6tables-legacy-restore'),
  'ipset: the types of ipvs mode, and rules on them': `
    ipset create a bitmap:port range 0-65535 &&
    ipset create b hash:ip,port && ipset create c hash:ip,port,ip &&
    ipset create d hash:ip,port,net && ipset create e hash:ip,port family inet6 &&
    iptables -A INPUT -p tcp -m set --match-set b dst,dst`,
  'ip_vs: IPv4 and connection tracking': `
    ip link set lo up && ipvsadm -A -t 10.0.0.1:1 && ipvsadm -a -t 10.0.0.1:1 -r 10.0.0.2:1 -m &&
    sysctl -w net.ipv4.vs.conntrack=1`,
  'ip_vs: IPv6': 'ipvsadm -A -t [fd00::1]:1 && ipvsadm -a -t [fd00::1]:1 -r [fd00::2]:1 -m',
  'ip_vs: schedulers': `
    port=0
    for name in rr wrr lc wlc lblc lblcr sh dh sed nq mh fo ovf; do
      ipvsadm -A -t 10.0.0.1:$((port += 1)) -s $name || missing="$missing $name"
    done
    [ -z "$missing" ] || { echo "missing:$missing" >&2; false; }`,
  'conntrack: entries can be made, listed and deleted': `
    conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1 --dport 2 -t 60 &&
    conntrack -L | grep -q 10.0.0.2 && conntrack -D -d 10.0.0.2`,
  'eBPF: programs at connect': `
    mount -t bpf bpf /tmp && mount -t cgroup2 cgroup2 /tmp || exit
    grep -q ' __cgroup_bpf_run_filter_sock_addr$' /proc/kallsyms ||
    { echo no CONFIG_CGROUP_BPF >&2; false; }`,
  'links: dummy, veth, bridge': `
    ip link add link0 type dummy && ip link add link1 type veth peer name link2 &&
    ip link add link3 type bridge`,
  // The alias is what the kernel itself asks modprobe for when a program opens such a socket.
  'sctp: sockets': `
    grep -q ^SCTP /proc/net/protocols || modprobe net-pf-2-proto-132
    grep -q ^SCTP /proc/net/protocols`,
  'namespaces: with a name': 'ip netns add check && ip netns exec check true',
  'namespaces: in a user namespace': 'unshare --user --map-root-user --net ip link set lo up',
};

function inTable(content: string, families: readonly string[] = ['ip']): string {
  const tables = families.map((family) => `table ${family} guest-check {\n${content}\n}`);
  return `nft -f - <<'EOF'\n${tables.join('\n')}\nEOF`;
}

function iptablesRules(restore: string): string {
  return `${restore} <<'EOF'
*mangle
-A FORWARD -p tcp -m tcp --dport 1 -m recent --name x --rcheck --seconds 9 --reap -j ACCEPT
COMMIT
*nat
-A PREROUTING -m addrtype --dst-type LOCAL -m statistic --mode random --probability 0.5 -j RETURN
-A PREROUTING -p tcp -j DNAT --to-destination :1
-A OUTPUT -m comment --comment x -j MARK --set-xmark 1/1
-A POSTROUTING -m mark --mark 1/1 -j MASQUERADE --random-fully
COMMIT
*filter
-A INPUT -m conntrack --ctstate NEW,INVALID -j DROP
-A INPUT -p sctp -m multiport --dports 1,2 -j REJECT
COMMIT
EOF`;
}

/** The first line that the failing commands wrote; undefined when they succeeded. */
function failure(commands: string): Promise<string | undefined> {
  const words = ['--net', '--mount', 'sh', '-c', commands];
  return new Promise((resolve) => {
    execFile('unshare', words, (error, _stdout, stderr) => {
      resolve(error === null ? undefined : (stderr.trim().split('\n')[0] ?? error.message));
    });
  });
}

const results = await Promise.all(
  Object.entries(probes).map(async ([name, commands]) => ({ name, lack: await failure(commands) })),
);
const missing = results.filter(({ lack }) => lack !== undefined);
for (const { name, lack } of missing) console.error(`guest-check: missing: ${name}: ${lack}`);
const there = results.length - missing.length;
console.log(`guest-check: ${release()}: ${there} of ${results.length} capabilities are there`);
process.exitCode = missing.length === 0 ? 0 : 1;
