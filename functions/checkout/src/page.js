(() => {
  "use strict";
  const main = document.querySelector("main");
  // Milliseconds that the service's clock is ahead of the payer's.
  let ahead = Number(document.body.dataset.now) - Date.now();
  // The state as the service sent it, without what this script changed.
  let shown = main.innerHTML;
  let isLooking = false;
  // Looks since the page was shown, its state changed or the payer came back, and the seconds since the last.
  let looks = 0;
  let elapsed = 0;
  const announced = new Set();

  const prepare = () => {
    for (const button of main.querySelectorAll("[data-copy]")) button.hidden = false;
    for (const button of main.querySelectorAll("[data-share]")) button.hidden = !navigator.share;
  };
  prepare();

  document.addEventListener("click", async (event) => {
    const share = event.target.closest("[data-share]");
    if (share) navigator.share({ text: share.dataset.share }).catch(() => {});
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const field = document.getElementById(button.dataset.copy);
    let copied = true;
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      // Without https, and in some in-app browsers, there is no clipboard.
      field.select();
      copied = document.execCommand("copy");
      button.focus();
    }
    button.dataset.usual ??= button.textContent;
    button.textContent = copied ? button.dataset.done : button.dataset.failed;
    setTimeout(() => { button.textContent = button.dataset.usual; }, 4000);
  });
  document.addEventListener("focusin", (event) => { if (event.target.readOnly) event.target.select(); });

  const title = () => document.getElementById("state")?.textContent;
  const look = async () => {
    const headers = { "If-None-Match": document.body.dataset.etag };
    const response = await fetch(document.body.dataset.look || location.href, { cache: "no-store", headers, signal: AbortSignal.timeout(10000) });
    if (response.status === 304 || response.status >= 500) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("main");
    if (!next || next.innerHTML === shown) return;
    const before = title();
    shown = next.innerHTML;
    ahead = Number(page.body.dataset.now) - Date.now();
    main.className = next.className;
    main.innerHTML = shown;
    document.title = page.title;
    Object.assign(document.body.dataset, { refresh: "", look: "", ...page.body.dataset });
    looks = elapsed = 0;
    prepare();
    // A screen reader reads the new state out.
    if (title() !== before) document.getElementById("state")?.focus();
  };
  // One look at a time, so that a late answer can't replace a newer one.
  const refresh = async () => {
    if (isLooking || document.hidden || !navigator.onLine) return;
    isLooking = true;
    // A failure leaves what is shown.
    await look().catch(() => {});
    isLooking = false;
  };

  const count = () => {
    for (const deadline of main.querySelectorAll("[data-ends]")) {
      const left = Number(deadline.dataset.ends) - Date.now() - ahead;
      if (left <= 0) {
        // Nobody may pay a code that has expired. The next look shows the state, whatever was shown.
        deadline.closest(".way").remove();
        shown = "";
        document.body.dataset.etag = "";
        refresh();
      } else if (left <= Number(deadline.dataset.quarter)) {
        const seconds = Math.floor(left / 1000);
        const two = (number) => String(Math.floor(number)).padStart(2, "0");
        const hours = seconds >= 3600 ? `${Math.floor(seconds / 3600)}:` : "";
        const clock = `${hours}${two((seconds / 60) % 60)}:${two(seconds % 60)}`;
        deadline.querySelector("[data-left]").textContent = `${deadline.dataset.word} ${clock}`;
        for (const minutes of [5, 1]) {
          const name = `${deadline.dataset.ends} ${minutes}`;
          const isNow = seconds <= 60 * minutes && seconds > 60 * minutes - 5;
          if (isNow && !announced.has(name)) {
            announced.add(name);
            document.getElementById("announcement").textContent = deadline.dataset[`said${minutes}`];
          }
        }
      }
    }
  };
  setInterval(() => {
    count();
    if (document.hidden) return;
    elapsed += 1;
    const waits = (document.body.dataset.refresh || "").split(" ");
    const seconds = Number(waits[Math.min(looks, waits.length - 1)]);
    if (seconds && elapsed >= seconds) {
      looks += 1;
      elapsed = 0;
      refresh();
    }
  }, 1000);
  // At once when the payer returns from the bank's app.
  document.addEventListener("visibilitychange", () => {
    looks = elapsed = 0;
    refresh();
  });
})();
