(() => {
  "use strict";

  // The time, in milliseconds, for which the page does not reload after the payer used the code.
  const PAUSE_MS = 30000;
  const field = document.getElementById("codigo");
  const button = document.getElementById("copiar");
  const title = document.getElementById("situacao");
  const refreshSeconds = Number(document.body.dataset.refreshSeconds);
  let pausedUntil = 0;
  const pauseReloading = () => { pausedUntil = Date.now() + PAUSE_MS; };

  if (field && button) {
    const message = document.getElementById("copiado");
    button.hidden = false;
    button.addEventListener("click", async () => {
      pauseReloading();
      let copied = true;
      try {
        await navigator.clipboard.writeText(field.value);
      } catch {
        // Without https, and in some in-app browsers, there is no clipboard.
        field.select();
        copied = document.execCommand("copy");
        button.focus();
      }
      message.textContent = copied
        ? "Código copiado. Agora cole no aplicativo do seu banco."
        : "Não foi possível copiar: selecione o código e copie.";
    });
    field.addEventListener("focus", () => { pauseReloading(); field.select(); });
    field.addEventListener("copy", pauseReloading);
  }
  // A reload would cancel the form that is being sent.
  document.addEventListener("submit", pauseReloading);

  // After a reload, the element that had the focus gets it back. If the title changed, the title gets the
  // focus, so that a screen reader reads it out.
  const before = history.state;
  if (before && title) {
    const focused = before.title === title.textContent && document.getElementById(before.focus);
    if (focused) focused.focus({ preventScroll: true });
    else if (before.title !== title.textContent) title.focus();
  }

  if (refreshSeconds > 0) {
    const reload = () => {
      if (document.hidden || !navigator.onLine) return;
      const focus = document.activeElement ? document.activeElement.id : "";
      history.replaceState({ title: title ? title.textContent : "", focus }, "");
      location.reload();
    };
    setInterval(() => { if (Date.now() >= pausedUntil) reload(); }, refreshSeconds * 1000);
    // Reloads at once when the payer returns from the bank's app.
    document.addEventListener("visibilitychange", reload);
  }
})();
