/** The one object in the kernel that outlives this process (README.md beside this file). */

/** The link that holds the addresses of Services. All that is on it is ours. */
export const linkName = 'fairlead0';

/** A bridge without ports does where the kernel has no dummy links: it never carries a packet. */
export const linkTypes = ['dummy', 'bridge'] as const;
