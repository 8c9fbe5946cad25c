(() => {
  "use strict";
  const main = document.querySelector("main");
  // Milliseconds that the service's clock is ahead of the payer's.
  const ahead = Number(document.body.dataset.now) - Date.now();
  // The state as the service sent it, without what this script changed.
  let shown = main.innerHTML;
  let announced = 0;

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
    const usual = button.textContent;
    button.textContent = copied ? button.dataset.done : button.dataset.failed;
    setTimeout(() => { button.textContent = usual; }, 4000);
  });
  document.addEventListener("focusin", (event) => { if (event.target.readOnly) event.target.select(); });

  const refresh = async () => {
    if (document.hidden || !navigator.onLine) return;
    const headers = { "If-None-Match": document.body.dataset.etag };
    const response = await fetch(location.href, { cache: "no-store", headers }).catch(() => null);
    // A failure leaves what is shown.
    if (!response || response.status === 304 || response.status >= 500) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("main");
    if (!next || next.innerHTML === shown) return;
    shown = next.innerHTML;
    main.className = next.className;
    main.innerHTML = shown;
    document.title = page.title;
    Object.assign(document.body.dataset, { refresh: "", ...page.body.dataset });
    prepare();
    // A screen reader reads the new state out.
    document.getElementById("state").focus();
  };

  const count = () => {
    for (const deadline of main.querySelectorAll("[data-ends]")) {
      const left = Number(deadline.dataset.ends) - Date.now() - ahead;
      if (left <= 0) {
        // Nobody may pay a code that has expired.
        deadline.closest(".way").remove();
        refresh();
      } else if (left <= Number(deadline.dataset.quarter)) {
        const seconds = Math.floor(left / 1000);
        const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
        deadline.querySelector("[data-left]").textContent = `${deadline.dataset.word} ${clock}`;
        for (const minutes of [5, 1]) {
          if (Math.ceil(seconds / 60) === minutes && announced !== minutes) {
            announced = minutes;
            document.getElementById("announcement").textContent = deadline.dataset[`said${minutes}`];
          }
        }
      }
    }
  };
  let elapsed = 0;
  setInterval(() => {
    count();
    elapsed += 1;
    const seconds = Number(document.body.dataset.refresh);
    if (seconds && elapsed % seconds === 0) refresh();
  }, 1000);
  // At once when the payer returns from the bank's app.
  document.addEventListener("visibilitychange", refresh);
})();
