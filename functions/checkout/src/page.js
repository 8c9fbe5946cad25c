(() => {
  "use strict";

  // How long the page leaves a payer in peace who is busy with the code.
  const PEACE_MS = 30000;
  const field = document.getElementById("codigo");
  const button = document.getElementById("copiar");
  const title = document.getElementById("situacao");
  const refreshSeconds = Number(document.body.dataset.refreshSeconds);
  let quietUntil = 0;
  const leaveInPeace = () => { quietUntil = Date.now() + PEACE_MS; };

  if (field && button) {
    const said = document.getElementById("copiado");
    button.hidden = false;
    button.addEventListener("click", async () => {
      leaveInPeace();
      let copied = true;
      try {
        await navigator.clipboard.writeText(field.value);
      } catch {
        // No clipboard without https, nor in some apps' own browsers.
        field.select();
        copied = document.execCommand("copy");
        button.focus();
      }
      said.textContent = copied
        ? "Código copiado. Agora cole no aplicativo do seu banco."
        : "Não foi possível copiar: selecione o código e copie.";
    });
    field.addEventListener("focus", () => { leaveInPeace(); field.select(); });
    field.addEventListener("copy", leaveInPeace);
  }

  // After a reload the focus is where it was; on the title where the news is there, so that it is read out.
  const before = history.state;
  if (before && title) {
    const kept = before.title === title.textContent && document.getElementById(before.focus);
    if (kept) kept.focus({ preventScroll: true });
    else if (before.title !== title.textContent) title.focus();
  }

  if (refreshSeconds > 0) {
    const reload = () => {
      if (document.hidden || !navigator.onLine) return;
      const focus = document.activeElement ? document.activeElement.id : "";
      history.replaceState({ title: title ? title.textContent : "", focus }, "");
      location.reload();
    };
    setInterval(() => { if (Date.now() >= quietUntil) reload(); }, refreshSeconds * 1000);
    // Back from the bank's app.
    document.addEventListener("visibilitychange", reload);
  }
})();
