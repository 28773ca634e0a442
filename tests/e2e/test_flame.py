"""Flame graphs in a real browser: zoom, search, themes, hostile names."""

import html
import json
import re
import xml.etree.ElementTree as ElementTree

import browser
import pytest

STACKS = b"""main;serve;parse 30
main;serve;render;json 50
main;serve;render;sort 10
main;idle 10
"""

# Loads the picture in a frame of the same origin, uses it as a person would, and reports.
DRIVER = """<!doctype html><title>driver</title><iframe id=f src="flame.svg" width=1000 height=400></iframe>
<pre id=out></pre><script>
const f = document.getElementById('f');
f.onload = () => {
  const d = f.contentDocument, out = {};
  const frames = () => [...d.querySelectorAll('.frame')].map(g => ({
    name: g.querySelector('text') ? g.querySelector('text').textContent : '',
    width: Number(g.querySelector('rect').getAttribute('width')),
    classes: g.getAttribute('class')}));
  const click = name => [...d.querySelectorAll('.frame')]
    .find(g => g.querySelector('text') && g.querySelector('text').textContent === name)
    .dispatchEvent(new MouseEvent('click', {bubbles: true}));
  const key = k => d.dispatchEvent(new KeyboardEvent('keydown', {key: k, bubbles: true}));
  out.start = frames();
  click('render');
  out.zoomed = frames();
  out.details = d.getElementById('details').textContent;
  key('Escape');
  out.back = frames();
  const input = d.querySelector('input');
  input.value = 'json|parse';
  input.dispatchEvent(new Event('input'));
  out.searched = frames();
  out.matched = d.getElementById('matched').textContent;
  key('Escape');
  out.cleared = d.getElementById('matched').textContent;
  key('ArrowDown'); key('ArrowDown'); key('Enter');
  out.keyboard = d.getElementById('details').textContent;
  document.getElementById('out').textContent = JSON.stringify(out);
};
</script>"""


def drive(vesta, tmp_path, *args, stdin=STACKS):
    browser.need_chromium()
    vesta("flame", "-", "-o", tmp_path / "flame.svg", *args, stdin=stdin, check=0)
    (tmp_path / "driver.html").write_text(DRIVER)
    with browser.serve(tmp_path) as url:
        page = browser.dom(f"{url}/driver.html")
    return json.loads(html.unescape(re.search(r'<pre id="out">(.*?)</pre>', page, re.S)[1]))


def width_of(frames, name):
    return next(f["width"] for f in frames if f["name"] == name)


def test_a_click_zooms_and_escape_goes_back(vesta, tmp_path):
    seen = drive(vesta, tmp_path)
    assert width_of(seen["start"], "render") == pytest.approx(600, abs=2)
    assert width_of(seen["start"], "main") == pytest.approx(1000, abs=2)
    assert width_of(seen["zoomed"], "render") == pytest.approx(1000, abs=2)
    assert width_of(seen["zoomed"], "json") == pytest.approx(1000 * 50 / 60, abs=2)
    assert "parse" not in [f["name"] for f in seen["zoomed"]]
    assert "total 60" in seen["details"] and "60 % of all" in seen["details"]
    assert seen["back"] == seen["start"]


def test_search_marks_hits_and_counts_each_stack_once(vesta, tmp_path):
    seen = drive(vesta, tmp_path)
    assert seen["matched"] == "matched 80 % (80)"
    hits = {f["name"] for f in seen["searched"] if "hit" in f["classes"]}
    assert hits == {"json", "parse"}
    assert seen["cleared"] == ""


def test_the_keyboard_walks_the_frames(vesta, tmp_path):
    seen = drive(vesta, tmp_path)
    assert seen["keyboard"].startswith("idle  self 10")


def test_inverted_the_hot_code_comes_first(vesta, tmp_path):
    seen = drive(vesta, tmp_path, "-invert",
                 stdin=b"main;serve;render;json 50\nmain;render 30\nmain;idle 20\n")
    assert width_of(seen["start"], "json") == pytest.approx(500, abs=2)
    assert width_of(seen["start"], "idle") == pytest.approx(200, abs=2)


def test_names_are_text_and_never_markup(vesta, tmp_path):
    evil = "<script>alert(1)</script>]]>&\"' \u202eabc\u00e9\U0001f525"
    stacks = f"main;render;{evil} 50\nmain;render;x 10\n".encode()
    stacks += b"main;render;\xff\xfe\x01bad 40\n"
    seen = drive(vesta, tmp_path, "--input-format=collapsed", stdin=stacks)
    assert width_of(seen["start"], "render") == pytest.approx(1000, abs=2)
    assert any(f["name"].startswith("<script>alert(1)") for f in seen["start"])
    ElementTree.parse(tmp_path / "flame.svg")  # well-formed XML


def test_a_base_colours_by_change(vesta, tmp_path):
    base = tmp_path / "base.collapsed"
    base.write_bytes(b"main;serve;parse 30\nmain;gone 20\n")
    result = vesta("flame", "-", "-diff_base", base, stdin=STACKS, check=0)
    picture = ElementTree.fromstring(result.out)
    classes = {r.get("class") for r in picture.iter("{http://www.w3.org/2000/svg}rect")}
    assert any(c.startswith("more") for c in classes)
    assert any(c.startswith("less") for c in classes)
    assert '"gone"' in result.text


def test_it_is_a_picture_without_scripts_too(vesta):
    result = vesta("flame", "-", stdin=STACKS, check=0)
    picture = ElementTree.fromstring(result.out)
    ns = "{http://www.w3.org/2000/svg}"
    boxes = {}
    for box in picture.find(f"{ns}g").iter(f"{ns}svg"):
        label = box.find(f"{ns}text")
        boxes[label.text if label is not None else ""] = float(box.get("width").rstrip("%"))
    assert boxes["json"] == pytest.approx(50)
    assert boxes["serve"] == pytest.approx(90)


def test_filters_apply_to_pictures(vesta):
    result = vesta("flame", "-", "-focus=render", stdin=STACKS, check=0)
    assert '"parse"' not in result.text and '"json"' in result.text


def test_no_samples_is_still_a_picture(vesta):
    result = vesta("flame", "-", "-focus=nothing_like_it", stdin=STACKS)
    assert result.code == 3 and "<svg" in result.text
