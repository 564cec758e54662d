/** Why modes differ from the others, for `Story.differsIn`. */

export const leavesUnknownPorts = {
  iptables: 'it has rules for the ports of Services only, as in kube-proxy',
} as const;

const bound = 'the address is bound on the node, so that its other ports are refused';
export const bindsAddresses = { ipvs: `${bound}, as in kube-proxy`, userspace: bound } as const;

export const keepsAddressesForConnections = {
  userspace: 'an address stays while connections to it are open: it refuses all others',
} as const;

export const refusesOnAllAddresses = {
  iptables: 'a node port without endpoints is refused on every local address, as in kube-proxy',
} as const;

export const forgetsTheNodeItself = {
  iptables: 'what the node itself sends to external addresses is not refused, as in kube-proxy',
} as const;

export const firewallNeedsEndpoints = {
  iptables: 'without endpoints everyone is refused, whatever the source ranges, as in kube-proxy',
} as const;

export const knowsNoServiceCIDRs = {
  iptables: 'it knows nothing of ServiceCIDRs, as in kube-proxy',
  userspace: 'only addresses of Services are bound, the rest goes where routes lead',
} as const;

const allAddresses = 'without nodePortAddresses, every address has node ports, as in kube-proxy';
export const startsWithAllAddresses = {
  iptables: allAddresses,
  ipvs: allAddresses,
  userspace: 'without nodePortAddresses, every address has node ports',
} as const;

export const remembersAddresses = {
  ipvs: 'a client is remembered for each address and port by itself, as in kube-proxy',
} as const;

export const hasOnePool = {
  ipvs: 'with local endpoints all clients get those: a virtual service has one set of real servers',
} as const;

/** The template of a client outlives its connections (ip_vs_conn_expire). */
export const remembersWhileConnected = {
  ipvs: 'a client is forgotten only after its last connection has timed out, as in kube-proxy',
} as const;

/** Its template leads to a real server that never went. */
export const remembersWhileDraining = {
  ipvs: 'an endpoint that comes back while it drains is remembered, as in kube-proxy',
} as const;

export const remembersWhileOff = {
  ipvs: 'what the kernel remembered before affinity was off still holds, as in kube-proxy',
} as const;

export const masqueradesTheNode = {
  ipvs: 'the node itself comes from the ClusterIP, so that it is masqueraded, as in kube-proxy',
} as const;

export const movesUDPAtOnce = {
  ipvs: 'UDP leaves an endpoint as soon as new clients do, as in kube-proxy',
} as const;

export const endsWithTheService = {
  ipvs: 'the address is unbound, and open connections end with it, as in kube-proxy',
} as const;

export const endsNoOldConnections = {
  ipvs: 'a connection is only ended with its real server',
} as const;

export const hasNoSCTP = {
  userspace: 'there are no sockets for SCTP: such a port is set aside',
} as const;

const needsNodeName = 'which endpoints are here, only their nodeName says';
export const knowsEndpointsByNode = {
  nftables: `${needsNodeName}, as in kube-proxy`,
  ipvs: `${needsNodeName}, as in kube-proxy`,
} as const;

export const sharesNoPorts = {
  userspace: 'a port that a process of the node listens on is its own: the Service is set aside',
} as const;

export const tellsPodsByAddress = {
  userspace: 'a socket does not know the interface of a client, only a CIDR is detected',
} as const;

export const forgetsAtRestart = {
  userspace: 'which client had which endpoint is known to the process only',
} as const;

export const endsWithTheProcess = {
  userspace: 'the process itself carries connections: they end with it',
} as const;

/** Stories with other answers in mode userspace. */
export const seesTheNode = 'endpoints are reached from the node, and see it';
export const resetsConnections = 'a connection can not be dropped, it is reset';
export const refusesByReset = 'the kernel itself refuses a connection, by a reset';
