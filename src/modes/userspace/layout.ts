/** The one object in the kernel that outlives this process (README.md in this folder). */

/** The link that holds the addresses of Services. All that is on it is ours. */
export const linkName = 'fairlead0';

/**
 * A bridge without ports replaces a dummy link where the kernel has none: neither carries packets.
 */
export const linkTypes = ['dummy', 'bridge'] as const;
