import { isNear } from '../../net/near.ts';

/** The labels and annotations that decoding reads. */
export const headlessLabel = 'service.kubernetes.io/headless';
export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
export const serviceNameLabel = 'kubernetes.io/service-name';
export const zoneLabel = 'topology.kubernetes.io/zone';
export const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';
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
