// The page works without this file. It keeps the main region up to date, and adds keys.
const root = document.documentElement
root.classList.add("has-js")
const main = () => document.getElementById("main")
const say = (text) => { document.getElementById("said").textContent = text }

// Ages go on between two readings, unless the data are old.
let read = performance.now()
let cut = false
// words writes a time as duration.Age does on the server.
const words = (ms) => {
  if (ms < 1000) return ms === 0 ? "0s" : ms + "ms"
  const s = Math.round(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24)
  const parts = d > 0 ? [[d, "d"], [h % 24, "h"]] : [[h, "h"], [m % 60, "m"], [s % 60, "s"]]
  return parts.filter(([n]) => n > 0).map(([n, unit]) => n + unit).join("")
}
setInterval(() => {
  if (cut || document.hidden || "stale" in main().dataset) return
  const more = performance.now() - read
  for (const e of main().querySelectorAll("[data-ago]")) {
    const text = words(Math.floor(Number(e.dataset.ago) + more))
    if (e.textContent !== text) e.textContent = text
  }
}, 1000)

// morph makes old like next. Elements with the same id or data-key stay the same, so focus, selection and scroll do.
const keyOf = (n) => n.nodeType === 1 ? n.id || n.dataset.key || "" : ""
function morph(old, next) {
  for (const a of [...old.attributes]) {
    if (!next.hasAttribute(a.name) && !(old.nodeName === "DETAILS" && a.name === "open")) old.removeAttribute(a.name)
  }
  for (const a of next.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value)
  if (old === document.activeElement && /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName)) return
  const keyed = new Map()
  for (const c of old.children) if (keyOf(c)) keyed.set(keyOf(c), c)
  let at = old.firstChild
  for (const n of [...next.childNodes]) {
    const key = keyOf(n)
    let same = keyed.get(key)
    if (!key) for (same = at; same && (same.nodeName !== n.nodeName || keyOf(same));) same = same.nextSibling
    if (same && same.nodeName === n.nodeName) {
      // The nodes before it go behind it: a node that is moved loses the focus.
      while (at !== same) {
        const between = at
        at = at.nextSibling
        if (keyOf(between)) old.insertBefore(between, same.nextSibling)
        else between.remove()
      }
      at = same.nextSibling
      keyed.delete(key)
      if (n.nodeType === 1) morph(same, n)
      else if (same.data !== n.data) same.data = n.data
    } else {
      old.insertBefore(document.importNode(n, true), at)
    }
  }
  while (at) {
    const gone = at
    at = at.nextSibling
    gone.remove()
  }
}

let loading = false, again = false
async function refresh() {
  if (loading) { again = true; return }
  loading = true
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" })
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) throw new Error("no page")
    const next = new DOMParser().parseFromString(await answer.text(), "text/html")
    const region = next.getElementById("main")
    if (!region) throw new Error("no page")
    const chosen = row()?.dataset.key
    morph(main(), region)
    for (const nav of ["header nav"]) {
      const from = next.querySelector(nav)
      if (from) morph(document.querySelector(nav), from)
    }
    document.title = next.title
    read = performance.now()
    if (chosen) for (const r of rows()) r.classList.toggle("chosen", r.dataset.key === chosen)
    contact(true)
  } catch { contact(false) }
  loading = false
  if (again) { again = false; refresh() }
}

function contact(ok) {
  cut = !ok
  document.getElementById("cut").hidden = ok
  if (ok) heard = performance.now()
}

// One stream. It is closed while the tab is hidden.
let stream = null, heard = performance.now()
function listen() {
  stream?.close()
  stream = new EventSource("events")
  stream.addEventListener("change", () => { heard = performance.now(); refresh() })
  stream.addEventListener("alive", () => { heard = performance.now(); if (cut) refresh() })
  // Refused, such as the stream of one tab too many: the page is read from time to time.
  stream.onerror = () => { if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden) { refresh(); listen() } }, 3000) }
}
setInterval(() => { if (!document.hidden && performance.now() - heard > 6000) contact(false) }, 1000)
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; return }
  heard = performance.now()
  refresh()
  listen()
})
listen()

// The colors are set as soon as they are chosen.
document.getElementById("theme").addEventListener("change", (e) => e.target.form.submit())

document.addEventListener("click", async (e) => {
  const copy = e.target.closest("[data-copy]")
  if (copy) copyCommand()
  if (e.target.closest("[data-help]")) document.getElementById("keys").showModal()
})
async function copyCommand() {
  try {
    await navigator.clipboard.writeText(document.getElementById("command").textContent)
    say("The command is copied.")
  } catch {
    const range = document.createRange()
    range.selectNodeContents(document.getElementById("command"))
    getSelection().removeAllRanges()
    getSelection().addRange(range)
    say("The command is selected.")
  }
}

// Filters apply while they are typed.
let typing = 0
document.addEventListener("input", (e) => {
  const form = e.target.closest("form.filter")
  if (!form) return
  clearTimeout(typing)
  typing = setTimeout(() => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, v]) => v !== ""))
    history.replaceState(null, "", "locks?" + query)
    refresh()
  }, 250)
})

// Keys.
const rows = () => [...main().querySelectorAll("table.rows tbody tr")]
const row = () => main().querySelector("tr.chosen")
function choose(step) {
  const all = rows()
  if (!all.length) return
  const at = all.indexOf(row())
  const to = all[Math.max(0, Math.min(all.length - 1, at + step))]
  row()?.classList.remove("chosen")
  to.classList.add("chosen")
  to.scrollIntoView({ block: "nearest" })
  const link = to.querySelector("a")
  if (link) link.focus({ preventScroll: true })
}
let going = 0
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.nodeName)) {
    if (e.key === "Escape") e.target.blur()
    return
  }
  if (document.getElementById("keys").open) return
  if (Date.now() - going < 1500) {
    going = 0
    const link = document.querySelector(`[data-go="${CSS.escape(e.key)}"]`)
    if (link) { e.preventDefault(); link.click() }
    return
  }
  switch (e.key) {
    case "/": {
      e.preventDefault()
      const filter = document.querySelector("[data-filter]")
      if (filter) filter.select(); else location.href = "locks#q"
      break
    }
    case "j": choose(1); break
    case "k": choose(-1); break
    case "Enter": if (e.target === document.body || e.target === main()) row()?.querySelector("a")?.click(); break
    case "g": going = Date.now(); break
    case "c": copyCommand(); break
    case "?": document.getElementById("keys").showModal(); break
  }
})
if (location.hash === "#q") document.querySelector("[data-filter]")?.focus()
