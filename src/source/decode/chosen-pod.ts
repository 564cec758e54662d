import type { ChosenPod } from '../pods.ts';
import { type Decoded, open } from './field-reader.ts';
import { mirrorAnnotation } from './names.ts';

/**
 * The kubelet's identifier of a static pod is not a UUID, so that an annotation that a user has
 * written cannot name another pod.
 */
const filePodId = /^[0-9a-f]{32}$/;

/** Decodes the fields that the names of a pod's cgroups depend on. */
export function decodeChosenPod(raw: unknown): Decoded<ChosenPod> {
  const { fields, ...opened } = open('Pod', raw, 'namespaced');
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const { annotations, uid } = opened.metadata;
  const field = 'metadata.annotations';
  const mirrored = fields.object(annotations, field)?.[mirrorAnnotation];
  const fileId = fields.text(mirrored, `${field}[${mirrorAnnotation}]`) ?? '';
  const id = filePodId.test(fileId) ? fileId : (fields.text(uid, 'metadata.uid') ?? '');
  return { record: { key: opened.id.key, id }, problems: fields.problems };
}
