const wholeNumber = /^[1-9][0-9]*$/;

/**
 * Whether an event with this resourceVersion is newer than `position`. Versions of one resource are
 * increasing integers of any length (KEP-5504). Events with other versions count as new.
 */
export function isNewer(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined) return true;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return true;
  if (resourceVersion.length !== position.length) return resourceVersion.length > position.length;
  return resourceVersion > position;
}

/** Whether this resourceVersion is certainly older than `position`. */
export function isOlder(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined || resourceVersion === position) return false;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return false;
  return !isNewer(resourceVersion, position);
}
