// Prints the retained size of every node of a heap snapshot, one per line in the order of the file,
// as memlab computes them. usage: node retained_sizes.js FOLDER_WITH_NODE_MODULES SNAPSHOT
'use strict';
const path = require('path');
const [folder, file] = process.argv.slice(2);
const core = require(path.join(folder, 'node_modules', '@memlab', 'core'));

(async () => {
  core.config.muteConsole = true;
  core.config.isContinuousTest = true;
  const heap = await core.utils.getSnapshotFromFile(file, {buildNodeIdIndex: true, verbose: false});
  new core.TraceFinder().calculateAllNodesRetainedSizes(heap);
  const out = [];
  for (let i = 0; i < heap.nodes.length; i++) out.push(heap.nodes.get(i).retainedSize);
  process.stdout.write(out.join('\n') + '\n');
})().catch(e => {
  process.stderr.write(String(e && e.stack ? e.stack : e) + '\n');
  process.exit(1);
});
