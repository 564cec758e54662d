/** Bytes of Services in mode ipvs. */
import { bytesIn } from './service-bytes.ts';

bytesIn('ipvs');
