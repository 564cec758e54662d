/** Stories with connect-time translation, in mode ipvs. */
import { connectTimeStories } from './connect-time-stories.ts';

connectTimeStories('ipvs');
