import { isNear } from '../../net/near.ts';

/** The labels and annotations that decoding reads. */
export const headlessLabel = 'service.kubernetes.io/headless';
export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
export const serviceNameLabel = 'kubernetes.io/service-name';
export const zoneLabel = 'topology.kubernetes.io/zone';
export const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';
export const connectTimeAnnotation = 'fairlead.io/connect-time';
export const fastPathAnnotation = 'fairlead.io/fast-path';
export const balanceAnnotation = 'fairlead.io/balance';
export const weightAnnotation = 'fairlead.io/weight';
export const slowStartAnnotation = 'fairlead.io/slow-start';
export const failureDetectionAnnotation = 'fairlead.io/failure-detection';
export const probeAnnotation = 'fairlead.io/probe';
export const endConnectionsAnnotation = 'fairlead.io/end-connections';
export const udpFlowsAnnotation = 'fairlead.io/udp-flows';
/** Of Cilium: what ours mean, so that manifests can move. */
export const ciliumBalanceAnnotation = 'service.cilium.io/lb-algorithm';
export const ciliumWeightAnnotation = 'service.cilium.io/weight';
/** Of kube-router. */
export const schedulerAnnotation = 'kube-router.io/service.scheduler';
/** Annotation of static pods: the kubelet's identifier of the pod. */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';
export const initialEventsEndAnnotation = 'k8s.io/initial-events-end';

export const labelNames: readonly string[] = [
  headlessLabel,
  proxyNameLabel,
  serviceNameLabel,
  zoneLabel,
];

/** `service-name` */
const nameOfLabel = serviceNameLabel.slice(serviceNameLabel.indexOf('/') + 1);

/**
 * Whether a label was probably meant to be `kubernetes.io/service-name`, but differs from it. `at`
 * returns the characters of its text.
 */
export function isNearServiceName(length: number, at: (index: number) => number): boolean {
  const from = length - nameOfLabel.length;
  const hasItsEnd = from >= 0 && isNear(nameOfLabel.length, (i) => at(from + i), nameOfLabel, 0);
  if (!hasItsEnd && !isNear(length, at, serviceNameLabel, 2)) return false;
  return !isNear(length, at, serviceNameLabel, 0);
}

const ourPrefix = 'fairlead.io/';
/** Longer names are not read: none of ours is half as long. */
const misspeltMax = 60;

/** Whether it is an annotation of ours, or meant to be one. `at` returns its characters. */
export function isOurAnnotation(length: number, at: (index: number) => number): boolean {
  if (length <= ourPrefix.length || length > misspeltMax) return false;
  for (let i = 0; i < ourPrefix.length; i += 1) {
    if (at(i) !== ourPrefix.charCodeAt(i)) return false;
  }
  return true;
}

/** Those of ours that mean something at a Service. */
export const serviceAnnotations: readonly string[] = [
  connectTimeAnnotation,
  fastPathAnnotation,
  balanceAnnotation,
  slowStartAnnotation,
  failureDetectionAnnotation,
  probeAnnotation,
  endConnectionsAnnotation,
  udpFlowsAnnotation,
];

/** The same, at an EndpointSlice. */
export const sliceAnnotations: readonly string[] = [weightAnnotation];

/** Those that are read, of any kind of object. */
export const annotationNames: readonly string[] = [
  triggerTimeAnnotation,
  ...serviceAnnotations,
  ...sliceAnnotations,
  ciliumBalanceAnnotation,
  ciliumWeightAnnotation,
  schedulerAnnotation,
  mirrorAnnotation,
  initialEventsEndAnnotation,
];
