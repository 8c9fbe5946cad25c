(()=>{"use strict";
// 1 copy; 2 confirm; 3 choices that submit; 4 refresh of fragments; 5 keys. Every page works without this file.
const d=document;
d.addEventListener("click",async e=>{const b=e.target.closest("[data-copy]");if(!b)return;b.dataset.usual??=b.textContent;if(e.detail)b.blur();try{await navigator.clipboard.writeText(b.dataset.copy);b.textContent=b.dataset.done}catch{b.textContent="✕"}setTimeout(()=>{b.textContent=b.dataset.usual},2000)});
d.addEventListener("submit",e=>{const f=e.target;if(f.dataset.confirm&&!confirm(f.dataset.confirm)){e.preventDefault();return}if(f.method==="post")setTimeout(()=>f.querySelectorAll("button").forEach(b=>{b.disabled=true}),0)});
// A page that the browser shows again from its memory has its buttons back.
addEventListener("pageshow",e=>{if(e.persisted)location.reload()});
d.addEventListener("change",e=>{if(e.target.matches("[data-submit]"))e.target.form.requestSubmit()});
for(const b of d.querySelectorAll("[data-copy]"))b.hidden=false;
for(const b of d.querySelectorAll("[data-noscript]"))b.hidden=true;
d.addEventListener("keydown",e=>{const q=d.getElementById("q");if(q&&e.key==="/"&&!/^(INPUT|TEXTAREA|SELECT)$/.test(d.activeElement.tagName)){e.preventDefault();q.focus()}});
const root=d.querySelector("[data-refresh]");if(!root)return;
const usual=1000*(Number(root.dataset.refresh)||10);let wait=usual,etag="",timer;
const busy=el=>el.contains(d.activeElement)||el.querySelector("details[open],dialog[open]")||!getSelection().isCollapsed&&el.contains(getSelection().anchorNode);
const tick=async()=>{clearTimeout(timer);
if(!d.hidden&&navigator.onLine)try{
const r=await fetch(location.href,{headers:etag?{"If-None-Match":etag}:{},cache:"no-store",redirect:"manual",signal:AbortSignal.timeout(15000)});
if(r.type==="opaqueredirect"||r.status===401){location.reload();return}
if(r.ok){const n=new DOMParser().parseFromString(await r.text(),"text/html");let all=true;
for(const el of d.querySelectorAll("[data-refresh]")){const m=n.getElementById(el.id);if(!m)continue;if(busy(el)){all=false;continue}
for(const b of m.querySelectorAll("[data-copy]"))b.hidden=false;if(m.innerHTML!==el.innerHTML)el.replaceWith(m)}
etag=all?r.headers.get("etag")||"":"";wait=usual}else if(r.status!==304)throw 0;else wait=usual
}catch{wait=Math.min(wait*2,120000)}
if(d.querySelector("[data-refresh]"))timer=setTimeout(tick,wait)};
timer=setTimeout(tick,wait);d.addEventListener("visibilitychange",()=>{if(!d.hidden)tick()});
})();
