/**
 * What packets meet in addition to translation, where it depends on `mode`. docs/migrating.md,
 * `config validate` and `preflight` have it from here; `test/stories/empty-mode.kernel.test.ts`
 * shows it.
 */

interface ModeDifference {
  readonly packets: string;
  /** With `iptables`, and with kube-proxy's default. */
  readonly iptables: string;
  /** With an empty `mode`, which runs mode nftables; absent: as with `iptables`. */
  readonly empty?: string;
  /** With `nftables`, as in kube-proxy's mode of this name. */
  readonly nftables: string;
  /** What gives packets in mode nftables what `iptables` gives them; empty = nothing. */
  readonly instead: string;
}

export const modeDifferences: readonly ModeDifference[] = [
  {
    packets: 'to 127.0.0.1:NODEPORT',
    iptables: 'answered, unless localhostNodePorts is false or nodePortAddresses leave it out',
    nftables: 'refused',
    instead: 'nodePortAddresses: [primary, localhost] opens it for TCP',
  },
  {
    packets: 'to node ports and health-check node ports at further addresses of the node',
    iptables: 'answered at all addresses',
    nftables: 'refused at all but the primary addresses',
    instead: 'nodePortAddresses: [all]',
  },
  {
    packets: 'that connection tracking calls INVALID, when they are forwarded',
    iptables: 'dropped, unless net.netfilter.nf_conntrack_tcp_be_liberal is 1',
    nftables: 'forwarded untranslated: their receiver may reset a good connection',
    instead: 'conntrack.tcpBeLiberal: true',
  },
  {
    packets: 'to health-check node ports, where chain INPUT of iptables drops',
    iptables: 'accepted by chain KUBE-NODEPORTS of iptables',
    nftables: 'dropped: load balancers take the node out',
    instead: "accept the ports in the host's firewall",
  },
  {
    packets: 'forwarded to endpoints, where chain FORWARD of iptables drops',
    iptables: 'accepted by chain KUBE-FORWARD of iptables, if they are masqueraded or answers',
    nftables: 'dropped, unless another rule accepts them',
    instead: "accept the pod network in the host's firewall",
  },
  {
    packets: 'to a port that a ClusterIP does not have, or to an address that no Service has',
    iptables: 'routed as all others',
    nftables: 'refused at a ClusterIP, dropped in a ServiceCIDR',
    instead: '',
  },
  {
    packets: "of the node's own to a load balancer whose Service has no endpoints",
    iptables: 'routed as all others',
    nftables: 'refused',
    instead: '',
  },
  {
    packets: 'to an address and port that a Service and a published or host port both have',
    iptables: 'sent to the Service',
    empty: 'sent where the other program wants them (decision 16)',
    nftables: 'sent where the other program wants them',
    instead: '',
  },
  {
    packets: 'of clients that session affinity has to remember',
    iptables: 'from 100 addresses for each endpoint, or as many as xt_recent was loaded for',
    empty: 'from 65,535 addresses for each Service port',
    nftables: 'from 65,535 addresses for each Service port',
    instead: '',
  },
];
