/**
 * The fields that `src/source/decode` reads, with their numbers in the published generated.proto
 * of Kubernetes. All other fields are skipped.
 */
import { annotationNames, isOurAnnotation } from '../../decode/annotations.ts';
import { entriesMax } from '../../decode/entries.ts';
import { isNearServiceName, labelNames } from '../../decode/names.ts';
import type { Watched } from '../../source.ts';
import {
  common,
  entries,
  flag,
  int32,
  type Message,
  message,
  nested,
  position,
  repeated,
  text,
  time,
} from './message.ts';

/** The metadata that are read of every object. */
const ofEach = [
  text(1, 'name'),
  common(3, 'namespace'),
  text(6, 'resourceVersion'),
  entries(11, 'labels', labelNames),
  entries(12, 'annotations', annotationNames, isOurAnnotation),
] as const;

export const objectMeta = message(...ofEach);

const metadata = nested(1, 'metadata', objectMeta);
const serviceMeta = message(...ofEach, text(5, 'uid'), time(8, 'creationTimestamp'));
const sliceMeta = message(
  text(1, 'name'),
  common(3, 'namespace'),
  text(6, 'resourceVersion'),
  entries(11, 'labels', labelNames, isNearServiceName),
  entries(12, 'annotations', annotationNames, isOurAnnotation),
);
const podMeta = message(...ofEach, text(5, 'uid'));
const nodeMeta = message(...ofEach, time(9, 'deletionTimestamp'));

/** Of a Service. */
export const servicePort = message(
  common(1, 'name'),
  common(2, 'protocol'),
  int32(3, 'port'),
  int32(5, 'nodePort'),
);

const clientIPConfig = message(int32(1, 'timeoutSeconds'));

const serviceSpec = message(
  repeated(entriesMax.ports, position(1, 'ports')),
  nested(2, 'selector', message(text(1, 'key'))),
  text(3, 'clusterIP'),
  common(4, 'type'),
  repeated(entriesMax.addresses, text(5, 'externalIPs')),
  common(7, 'sessionAffinity'),
  repeated(entriesMax.sourceRanges, text(9, 'loadBalancerSourceRanges')),
  text(10, 'externalName'),
  common(11, 'externalTrafficPolicy'),
  int32(12, 'healthCheckNodePort'),
  nested(14, 'sessionAffinityConfig', message(nested(1, 'clientIP', clientIPConfig))),
  repeated(entriesMax.others, text(18, 'clusterIPs')),
  repeated(entriesMax.others, common(19, 'ipFamilies')),
  text(21, 'loadBalancerClass'),
  common(22, 'internalTrafficPolicy'),
);

const ingress = message(text(1, 'ip'), common(3, 'ipMode'));
const loadBalancer = message(repeated(entriesMax.addresses, nested(1, 'ingress', ingress)));

const service = message(
  nested(1, 'metadata', serviceMeta),
  nested(2, 'spec', serviceSpec),
  nested(3, 'status', message(nested(1, 'loadBalancer', loadBalancer))),
);

const nodeSpec = message(
  text(1, 'podCIDR'),
  repeated(entriesMax.others, nested(5, 'taints', message(text(1, 'key')))),
  repeated(entriesMax.others, text(7, 'podCIDRs')),
);
const nodeAddress = message(common(1, 'type'), text(2, 'address'));
const nodeCondition = message(common(1, 'type'), common(2, 'status'), text(6, 'message'));
const nodeStatus = message(
  repeated(entriesMax.others, nested(4, 'conditions', nodeCondition)),
  repeated(entriesMax.addresses, nested(5, 'addresses', nodeAddress)),
);

const node = message(
  nested(1, 'metadata', nodeMeta),
  nested(2, 'spec', nodeSpec),
  nested(3, 'status', nodeStatus),
);

const serviceCIDR = message(
  metadata,
  nested(2, 'spec', message(repeated(entriesMax.others, text(1, 'cidrs')))),
);

const conditions = message(flag(1, 'ready'), flag(2, 'serving'), flag(3, 'terminating'));
const hint = message(common(1, 'name'));
const hints = message(
  repeated(entriesMax.others, nested(1, 'forZones', hint)),
  repeated(entriesMax.others, nested(2, 'forNodes', hint)),
);

export const endpoint = message(
  repeated(entriesMax.others, text(1, 'addresses')),
  nested(2, 'conditions', conditions),
  nested(4, 'targetRef', message(text(3, 'name'))),
  common(6, 'nodeName'),
  common(7, 'zone'),
  nested(8, 'hints', hints),
);

/** Of an EndpointSlice. */
export const endpointPort = message(common(1, 'name'), common(2, 'protocol'), int32(3, 'port'));

/** Endpoints and ports are read as positions: there may be many, and a family follows endpoints. */
const endpointSlice = message(
  nested(1, 'metadata', sliceMeta),
  repeated(entriesMax.endpoints, position(2, 'endpoints')),
  repeated(entriesMax.ports, position(3, 'ports')),
  common(4, 'addressType'),
);

export const objects: Readonly<Record<Watched, Message>> = {
  services: service,
  endpointslices: endpointSlice,
  nodes: node,
  servicecidrs: serviceCIDR,
  pods: message(nested(1, 'metadata', podMeta)),
};

export const listMeta = message(text(2, 'resourceVersion'), text(3, 'continue'));

export const status = message(
  text(3, 'message'),
  text(4, 'reason'),
  nested(5, 'details', message(int32(5, 'retryAfterSeconds'))),
  int32(6, 'code'),
);
