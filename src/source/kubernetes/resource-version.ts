const wholeNumber = /^[1-9][0-9]*$/;

/**
 * Whether an event of a watch with this resourceVersion comes after all that came with `position`.
 * Versions of one resource grow as whole numbers of any length (KEP-5504). Of versions that are no
 * such numbers nothing is known, so that their events count as new.
 */
export function isNewer(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined) return true;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return true;
  if (resourceVersion.length !== position.length) return resourceVersion.length > position.length;
  return resourceVersion > position;
}

/** Whether it is certain that this resourceVersion comes before `position`. */
export function isOlder(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined || resourceVersion === position) return false;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return false;
  return !isNewer(resourceVersion, position);
}
