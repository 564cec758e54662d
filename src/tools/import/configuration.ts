/** Which KubeProxyConfiguration of a file is meant. */
import { formatProblem, type Tree, type TreeMap, textAt } from '../../config/tree.ts';
import { kind as configurationKind } from '../../config/values.ts';
import { contentsOf, type Found, nameOf } from './find.ts';

type Taken =
  /** `place` is where in the file it is; empty: the file, as a start would read it. */
  | {
      readonly configuration: Uint8Array | TreeMap;
      readonly place: string;
      readonly warnings: readonly string[];
    }
  | { readonly error: string };

/** What kubeadm calls it in its ConfigMap. */
const usualKey = 'config.conf';

/** The one configuration that is in the file; the file itself if that is what it claims to be. */
export function configurationIn(bytes: Uint8Array): Taken {
  const { documents, found, problems } = contentsOf(bytes, configurationKind);
  const itself = { configuration: bytes, place: '', warnings: [] };
  const first = documents[0];
  const kindOfFirst = textAt(first, 'kind');
  if (kindOfFirst === configurationKind) return itself;
  const candidates = found.filter(({ tree }) => textAt(tree, 'kind') === configurationKind);
  const usual = candidates.filter(({ key }) => key === usualKey);
  const [one, another] = usual.length > 0 ? usual : candidates;
  if (one === undefined) {
    if (first === undefined) return itself;
    if (problems.length > 0) return { error: problems.map(formatProblem).join('; ') };
    return isOtherKind(documents) ? { error: noneIn(documents) } : itself;
  }
  if (another !== undefined) return { error: severalIn(usual.length > 0 ? usual : candidates) };
  const what = `is of ${kindOfFirst === undefined ? 'no kind' : `kind ${kindOfFirst}`}`;
  const start = `a start with --config reads the first document of the file, which ${what}`;
  const warnings = one.key === '' ? [`${start}: give it a file with this one alone`] : [];
  return { configuration: one.tree, place: one.place, warnings };
}

function isOtherKind(documents: readonly Tree[]): boolean {
  return documents.length > 1 || textAt(documents[0], 'kind') === 'ConfigMap';
}

function noneIn(documents: readonly Tree[]): string {
  const kinds = documents.map(
    (one) => nameOf(one) ?? textAt(one, 'kind') ?? 'an object without kind',
  );
  return `there is no ${configurationKind} in the file: it has ${kinds.join(', ')}`;
}

function severalIn(candidates: readonly Found[]): string {
  const places = candidates.map(({ place }) => place).join('; ');
  return `the file has ${candidates.length} of kind ${configurationKind}: ${places}; give one`;
}
