/** How traffic of this node's pods is told from other traffic (behaviour document 5.6). */
import type { Operator } from '../../kernel/xt/codec.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
import type { LocalDetector, ModeConfig } from '../mode.ts';

type Traffic = Pick<XtRule, 'source' | 'inputInterface'>;

/** What is masqueraded on its way to a ClusterIP: one kind of traffic, or none. */
export function clusterTraffic({ masqueradeAll, localDetector }: ModeConfig): Traffic[] {
  return masqueradeAll ? [{}] : detect(localDetector, '!=');
}

/** Traffic of this node's pods; nothing is known to be without a detector. */
export function podTraffic({ localDetector }: ModeConfig): Traffic[] {
  return detect(localDetector, '==');
}

function detect(detector: LocalDetector, operator: Operator): Traffic[] {
  switch (detector.kind) {
    case 'none':
      return [];
    case 'cidr':
      return [{ source: { operator, cidr: detector.cidr } }];
    case 'bridge':
      return [{ inputInterface: { operator, name: detector.name } }];
    case 'interface-prefix':
      return [{ inputInterface: { operator, name: `${detector.prefix}+` } }];
  }
}
