/* The viewer inside a flame graph: `data` (names, depth, self, ...) is defined in front of it. */
(function () {
  'use strict';
  var NS = 'http://www.w3.org/2000/svg', XHTML = 'http://www.w3.org/1999/xhtml';
  var ROW = 19, TOP = 76, MIN_PX = 0.5, LABEL_PX = 28, CHAR_PX = 7.2;
  var svg = document.documentElement;
  var frames = document.getElementById('frames');
  var details = document.getElementById('details');
  var matched = document.getElementById('matched');
  var n = data.depth.length;
  var total = new Float64Array(n), start = new Float64Array(n), parent = new Int32Array(n);
  var old = data.old ? new Float64Array(n) : null;
  var zoomed = 0, pattern = null, hit = null, focus = 0;

  /* Depth-first order: a node's subtree follows it. Weights add up backwards, places forwards. */
  (function layout() {
    var path = [], i, used = new Float64Array(n);
    for (i = 0; i < n; i++) {
      parent[i] = i === 0 ? -1 : path[data.depth[i] - 1];
      path[data.depth[i]] = i;
      total[i] = data.self[i];
      if (old) old[i] = data.old[i];
    }
    for (i = n - 1; i > 0; i--) {
      total[parent[i]] += total[i];
      if (old) old[parent[i]] += old[i];
    }
    for (i = 1; i < n; i++) {
      var p = parent[i];
      start[i] = start[p] + used[p];
      used[p] += total[i];
    }
  })();

  function name(i) { return data.names[data.name[i]]; }

  function format(v) {
    var unit = data.unit, sign = v < 0 ? '-' : '', a = Math.abs(v), steps;
    if (unit === 'nanoseconds')
      steps = [[3.6e12, ' h'], [6e10, ' min'], [1e9, ' s'], [1e6, ' ms'], [1e3, ' µs'], [1, ' ns']];
    else if (unit === 'bytes')
      steps = [[1099511627776, ' TiB'], [1073741824, ' GiB'], [1048576, ' MiB'], [1024, ' KiB'], [1, ' B']];
    else
      return sign + a.toLocaleString('en') + (unit && unit !== 'count' ? ' ' + unit : '');
    for (var k = 0; k < steps.length; k++)
      if (a >= steps[k][0])
        return sign + (a / steps[k][0]).toPrecision(3).replace(/\.0+$/, '') + steps[k][1];
    return '0' + steps[steps.length - 1][1];
  }

  function percent(part, whole) {
    return whole === 0 ? '0 %' : (100 * part / whole).toPrecision(3).replace(/\.0+$/, '') + ' %';
  }

  function describe(i) {
    var text = name(i), file = data.files[data.file[i]];
    if (file) text += '  ' + file;
    if (old) {
      var now = total[i] - old[i];
      text += '  now ' + format(now) + ', before ' + format(old[i]) + ', change ' + format(now - old[i]);
      return text;
    }
    text += '  self ' + format(data.self[i]) + ', total ' + format(total[i]) + ', ' +
            percent(total[i], total[0]) + ' of all';
    if (i > 0) text += ', ' + percent(total[i], total[parent[i]]) + ' of caller';
    return text;
  }

  function make(tag, attributes) {
    var e = document.createElementNS(NS, tag);
    for (var key in attributes) e.setAttribute(key, attributes[key]);
    return e;
  }

  /* The end of a long name says most; a package path gives way first. */
  function label(text, room) {
    var most = Math.floor((room - 6) / CHAR_PX);
    if (text.length <= most) return text;
    if (most < 2) return '';
    var slash = text.lastIndexOf('/');
    if (slash > 0 && text.length - slash <= most) return '…' + text.slice(text.length - most + 1);
    var tail = slash > 0 ? text.slice(slash + 1) : text;
    if (tail.length > most) tail = tail.slice(tail.indexOf('.') + 1);
    return tail.length <= most ? tail : tail.slice(0, most - 1) + '…';
  }

  function diffClass(i) {
    if (total[i] === 0) return 'd0';
    var change = (total[i] - 2 * old[i]) / total[i], step = Math.min(4, Math.ceil(Math.abs(change) * 8));
    return Math.abs(change) < 0.02 ? 'd0' : (change > 0 ? 'more' : 'less') + step;
  }

  function drawFrame(i, x, w, y, isAbove) {
    var g = make('g', {class: 'frame' + (isAbove ? ' above' : ''), 'data-i': i, role: 'button'});
    var cls = old ? diffClass(i) : data.classes[data.name[i]];
    g.appendChild(make('rect', {x: x.toFixed(2), y: y, width: Math.max(w - 0.5, 0.3).toFixed(2),
                                height: ROW - 1, class: cls}));
    if (pattern) g.classList.add(hit[i] ? 'hit' : 'miss');
    if (i === focus && i !== 0) g.classList.add('focus');
    if (w >= LABEL_PX) {
      var t = make('text', {x: (Math.max(x, 0) + 3).toFixed(2), y: y + 13});
      t.textContent = label(name(i), w);
      g.appendChild(t);
    }
    frames.appendChild(g);
  }

  function draw() {
    var width = svg.clientWidth || 1200, i = 0, y, hidden = 0;
    var scale = total[zoomed] > 0 ? width / total[zoomed] : 0, left = start[zoomed];
    frames.textContent = '';
    for (i = zoomed; i > 0; i = parent[i])
      drawFrame(parent[i], 0, width, TOP + data.depth[parent[i]] * ROW, true);
    for (i = zoomed; i < n; i++) {
      if (i > zoomed && data.depth[i] <= data.depth[zoomed]) break;
      var w = total[i] * scale;
      if (w < MIN_PX) {
        var d = data.depth[i];
        while (i + 1 < n && data.depth[i + 1] > d) { i++; hidden++; }
        hidden++;
        continue;
      }
      y = TOP + data.depth[i] * ROW;
      drawFrame(i, (start[i] - left) * scale, w, y, false);
    }
    document.getElementById('hidden').textContent =
        hidden ? hidden.toLocaleString('en') + ' frames are too narrow to draw: zoom in to see them' : '';
  }

  function zoom(i) {
    zoomed = i;
    details.textContent = describe(i);
    svg.classList.toggle('zoomed', i !== 0);
    draw();
  }

  /* Each stack counts once, however many of its frames match. */
  function search(text) {
    var i, sum = 0;
    pattern = null;
    matched.textContent = '';
    if (text) {
      try { pattern = new RegExp(text, 'i'); }
      catch (e) { pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i'); }
      var byName = data.names.map(function (s) { return pattern.test(s); });
      hit = new Uint8Array(n);
      for (i = 0; i < n; i++) {
        hit[i] = i > 0 && byName[data.name[i]] ? 1 : 0;
        if (!hit[i]) continue;
        for (var p = parent[i]; p > 0 && !hit[p]; p = parent[p]);
        if (p <= 0) sum += total[i];
      }
      matched.textContent = 'matched ' + percent(sum, total[0]) + ' (' + format(sum) + ')';
    }
    draw();
  }

  function frameAt(event) {
    var g = event.target.closest ? event.target.closest('.frame') : null;
    return g ? Number(g.getAttribute('data-i')) : -1;
  }

  function addSearchBox() {
    var box = make('foreignObject', {x: 0, y: 6, width: 260, height: 34, id: 'searchbox'});
    var input = document.createElementNS(XHTML, 'input');
    input.setAttribute('type', 'search');
    input.setAttribute('placeholder', 'search (regex)  /');
    input.setAttribute('aria-label', 'search');
    input.addEventListener('input', function () { search(input.value); });
    box.appendChild(input);
    svg.appendChild(box);
    place();
    return input;
  }

  function place() {
    var width = svg.clientWidth || 1200, narrow = width < 720;
    var box = document.getElementById('searchbox');
    if (box) {
      box.setAttribute('x', narrow ? 10 : width - 270);
      box.setAttribute('y', narrow ? 45 : 6);
      box.setAttribute('width', narrow ? width - 20 : 260);
    }
    details.style.display = narrow ? 'none' : '';
    matched.setAttribute('x', width - 10);
    matched.setAttribute('y', narrow ? 24 : 62);
  }

  function nearest(i, dx, dy) {
    var j;
    if (dy < 0) return parent[i] < 0 ? 0 : parent[i];
    if (dy > 0) return i + 1 < n && data.depth[i + 1] > data.depth[i] ? i + 1 : i;
    for (j = i + dx; j > 0 && j < n && data.depth[j] >= data.depth[i]; j += dx)
      if (data.depth[j] === data.depth[i]) return j;
    return i;
  }

  var input = addSearchBox();
  frames.addEventListener('click', function (e) { var i = frameAt(e); if (i >= 0) { focus = i; zoom(i); } });
  frames.addEventListener('mouseover', function (e) { var i = frameAt(e); if (i >= 0) details.textContent = describe(i); });
  document.getElementById('reset').addEventListener('click', function () { focus = 0; zoom(0); });
  document.addEventListener('keydown', function (e) {
    var moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    if (e.key === '/' && document.activeElement !== input) { e.preventDefault(); input.focus(); }
    else if (e.key === 'Escape') { input.value = ''; focus = 0; search(''); zoom(0); input.blur(); }
    else if (document.activeElement === input) return;
    else if (e.key === 'Enter') zoom(focus);
    else if (moves[e.key]) {
      e.preventDefault();
      focus = nearest(focus, moves[e.key][0], moves[e.key][1]);
      details.textContent = describe(focus);
      draw();
    }
  });
  window.addEventListener('resize', function () { place(); draw(); });
  window.vesta = {zoom: zoom, search: search};
  svg.classList.add('live');
  zoom(0);
})();
