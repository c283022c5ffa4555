// The search, and keys for boxes that scroll. Pages work without it: then the search is hidden.
"use strict"

// words splits a text as search.go does for the index.
const words = (text) => text.toLowerCase().split(/[\s"'`()[\]{}<>,;:!?|=…]+/).map((w) => w.replace(/\.+$/, "")).filter(Boolean)

// weight returns how well a word matches a text: 2 at the beginning of a word, 1 within a word, 0 if it is not there.
function weight(text, word) {
  let best = 0
  for (let at = text.indexOf(word); at >= 0 && best < 2; at = text.indexOf(word, at + 1)) {
    best = at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]) ? 2 : 1
  }
  return best
}

// search returns the sections that have every word of the query, best first.
function search(index, query, limit) {
  const wanted = words(query)
  if (wanted.length === 0) return []
  const found = []
  for (const [page, id, heading, text, more] of index.sections) {
    const [path, title] = index.pages[page]
    const [h, p, t] = [heading.toLowerCase(), title.toLowerCase(), text.toLowerCase()]
    let score = words(heading).join(" ") === wanted.join(" ") ? 100 : 0
    const all = wanted.every((word) => {
      const w = 10 * weight(h, word) + 4 * weight(p, word) + 2 * weight(t, word) + weight(more, word)
      score += w
      return w > 0
    })
    if (all) found.push({ score, href: path + "#" + encodeURIComponent(id), heading, title, excerpt: excerpt(text, wanted) })
  }
  return found.sort((a, b) => b.score - a.score).slice(0, limit) // sort keeps the order of equals
}

// excerpt returns a piece of a text, with the first of the words that it has.
function excerpt(text, wanted, length = 160) {
  const at = Math.min(...wanted.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0))
  let start = 0
  if (at > length - 40 && at < text.length) start = text.lastIndexOf(" ", at - 40) + 1
  const piece = text.slice(start, start + length)
  return (start > 0 ? "… " : "") + piece + (start + length < text.length ? " …" : "")
}

// render puts results into a list. It sets texts only, so the markup in a heading stays text.
function render(document, list, results, base) {
  list.replaceChildren(...results.map((r) => {
    const line = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text })
    const link = Object.assign(document.createElement("a"), { href: base + r.href })
    link.append(line("span", "heading", r.heading), line("span", "page", r.title === r.heading ? "" : r.title), line("span", "excerpt", r.excerpt))
    const item = document.createElement("li")
    item.append(link)
    return item
  }))
}

// attach connects the search of a page. base is the address of the site.
function attach(base) {
  const box = document.querySelector(".search")
  const input = box.querySelector("input")
  const list = box.querySelector("ol")
  const status = box.querySelector("[role=status]")
  let index
  const load = () => (index ??= fetch(base + "assets/search.json").then((r) => (r.ok ? r.json() : Promise.reject(new Error(r.status)))))
  const close = () => { list.hidden = true; status.textContent = "" }
  const show = async () => {
    const query = input.value
    let results
    try {
      results = search(await load(), query, 20)
    } catch {
      index = undefined // the next key tries again
      list.hidden = true
      status.textContent = "The index of the search cannot be read."
      return
    }
    if (query !== input.value) return // a later key has its own results
    render(document, list, results, base)
    list.hidden = results.length === 0
    status.textContent = query.trim() === "" ? "" : results.length === 1 ? "1 result" : results.length + " results"
  }
  box.hidden = false
  input.addEventListener("focus", () => { load().catch(() => { index = undefined }); if (input.value) show() })
  input.addEventListener("input", show)
  box.addEventListener("focusout", (e) => { if (!box.contains(e.relatedTarget)) close() })
  list.addEventListener("click", (e) => { if (e.target.closest("a")) close() }) // the result may be on this page
  box.addEventListener("keydown", (e) => {
    const stops = [input, ...(list.hidden ? [] : list.querySelectorAll("a"))]
    const at = stops.indexOf(document.activeElement)
    if (e.key === "ArrowDown") stops[Math.min(at + 1, stops.length - 1)].focus()
    else if (e.key === "ArrowUp") stops[Math.max(at - 1, 0)].focus()
    else if (e.key === "Enter" && at === 0) stops[1]?.click()
    else if (e.key === "Escape") { input.focus(); input.value = ""; close() }
    else return
    e.preventDefault()
  })
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea")) return
    e.preventDefault()
    input.focus()
    input.select()
  })
}

// scrollable lets the keyboard reach the boxes that are wider than the page, and no others.
function scrollable() {
  for (const box of document.querySelectorAll(".scroll, main pre")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0
      box.setAttribute("role", "group") // a region would be a landmark, and there can be many
      box.setAttribute("aria-label", box.matches("pre") ? "Text, scrolls" : "Table, scrolls")
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name)
    }
  }
}

if (typeof module !== "undefined") {
  module.exports = { search, excerpt, render, words } // for the tests
} else {
  const base = new URL("..", document.currentScript.src).href
  if (location.protocol !== "file:") attach(base) // a page that is opened as a file cannot read the index
  scrollable()
  addEventListener("resize", scrollable)
  const here = document.querySelector(".documents [aria-current]")
  const documents = document.querySelector(".documents")
  if (here) documents.scrollTop = here.offsetTop - documents.clientHeight / 2
}
