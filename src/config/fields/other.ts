import type { FieldTable } from './spec.ts';

/** Fields of mode userspace, which kube-proxy no longer has, and of Windows nodes. */
export const otherFields = {
  portRange: {
    type: 'string',
    rules: 'first-last, first+count or one port; enforced in mode userspace, else only warned of',
    errorPath: 'PortRange',
    origin: 'older',
    meaning:
      'Host ports that rules of mode userspace once redirected to. Checked, and without effect: the ' +
      'mode listens at the addresses and ports of Services themselves.',
  },
  udpIdleTimeout: {
    type: 'duration',
    default: '250ms',
    bounds: { kind: 'positive' },
    boundsIn: ['userspace'],
    errorPath: 'UDPIdleTimeout',
    origin: 'older',
    meaning:
      'How long mode userspace keeps a UDP client at its endpoint while neither sends. A resolver ' +
      'that answers later is not heard.',
  },
  windowsRunAsService: {
    type: 'bool',
    origin: 'windows',
    meaning: 'Run under the service control manager.',
  },
  'winkernel.networkName': {
    type: 'string',
    origin: 'windows',
    meaning: 'Name of the HNS network.',
  },
  'winkernel.sourceVip': {
    type: 'string',
    origin: 'windows',
    meaning: 'Source address for NAT.',
  },
  'winkernel.enableDSR': {
    type: 'bool',
    origin: 'windows',
    meaning: 'Direct server return.',
  },
  'winkernel.rootHnsEndpointName': {
    type: 'string',
    origin: 'windows',
    meaning: 'Endpoint of the root network namespace.',
  },
  'winkernel.forwardHealthCheckVip': {
    type: 'bool',
    origin: 'windows',
    meaning: 'Forward the VIP of health checks.',
  },
} as const satisfies FieldTable;
