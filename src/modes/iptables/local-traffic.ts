/** Detects traffic of this node's pods (behaviour document 5.6). */
import type { Operator } from '../../kernel/xt/codec.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
import type { LocalDetector, ModeConfig } from '../mode.ts';

type Traffic = Pick<XtRule, 'source' | 'inputInterface'>;

/** The traffic to ClusterIPs that is masqueraded: one kind, or none. */
export function clusterTraffic({ masqueradeAll, localDetector }: ModeConfig): Traffic[] {
  return masqueradeAll ? [{}] : detect(localDetector, '!=');
}

/** Traffic of this node's pods. Without a detector none is known. */
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
