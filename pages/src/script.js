(()=>{"use strict";
// 1 copy; 2 questions; 3 refresh of fragments; 4 keys; 5 pictures; 6 uploads. Every page works without it, but for uploads.
const d=document;
d.addEventListener("click",async e=>{const b=e.target.closest("[data-copy]");if(!b)return;const t=b.lastElementChild;b.dataset.usual??=t.textContent;if(e.detail)b.blur();try{await navigator.clipboard.writeText(b.dataset.copy);t.textContent=b.dataset.done}catch{t.textContent="✕"}setTimeout(()=>{t.textContent=b.dataset.usual},2000)});
d.addEventListener("submit",e=>{const f=e.target;if(f.dataset.confirm&&!confirm(f.dataset.confirm)){e.preventDefault();return}f.elements.question?.remove();if(f.method==="post")setTimeout(()=>f.querySelectorAll("button:enabled").forEach(b=>{b.disabled=true;b.dataset.off=""}),0)});
// A page that the browser shows again from its memory has its buttons back.
addEventListener("pageshow",e=>{if(e.persisted)for(const b of d.querySelectorAll("[data-off]"))b.disabled=false});
// What was typed is never lost by a reload.
const typed=()=>[...d.querySelectorAll("form[method=post] :is(input,textarea)")].some(i=>i.type!=="hidden"&&i.value!==i.defaultValue);
d.querySelector("[data-go]")?.requestSubmit();
for(const b of d.querySelectorAll("[data-copy],[data-print]"))b.hidden=false;
d.querySelector("[data-print]")?.addEventListener("click",()=>print());
for(const b of d.querySelectorAll("[data-noscript]"))b.hidden=true;
d.addEventListener("keydown",e=>{const q=d.getElementById("q");if(q&&e.key==="/"&&!/^(INPUT|TEXTAREA|SELECT)$/.test(d.activeElement.tagName)){e.preventDefault();q.focus()}});
// The picture of the checkout shows what is typed. Its text is black or white, whichever has the greater contrast.
d.addEventListener("input",e=>{const{name,value}=e.target;for(const n of d.querySelectorAll(`[data-shows="${name}"]`))n.textContent=value;
if(name!=="color"||!/^#[0-9a-f]{6}$/i.test(value))return;
const[r,g,b]=[1,3,5].map(i=>parseInt(value.slice(i,i+2),16)/255).map(c=>c<=.04045?c/12.92:((c+.055)/1.055)**2.4);
d.querySelector("[data-fills]")?.setAttribute("fill",value);d.querySelector("[data-inks]")?.setAttribute("fill",.2126*r+.7152*g+.0722*b>.179?"#000":"#fff")});
// Makes a picture small enough for a logo.
const lg=d.querySelector("[data-logo]");
lg?.addEventListener("change",async()=>{const f=lg.files[0],most=+lg.dataset.logo;if(!f||f.type==="image/png"&&f.size<=most)return;
try{const b=await createImageBitmap(f);for(let s=Math.min(1,512/Math.max(b.width,b.height));s>.01;s*=.8){const c=d.createElement("canvas");c.width=Math.max(1,b.width*s);c.height=Math.max(1,b.height*s);c.getContext("2d").drawImage(b,0,0,c.width,c.height);const p=await new Promise(r=>c.toBlob(r,"image/png"));
if(p.size<=most){const t=new DataTransfer();t.items.add(new File([p],"logo.png",{type:p.type}));lg.files=t.files;return}}}catch{}});
// Announces a file, sends it to the storage and confirms it. The form has the words.
const up=d.querySelector("[data-upload]");
if(up){const w=up.dataset,input=up.querySelector("[type=file]"),bar=up.querySelector("progress"),state=up.querySelector("[role=status]");
const post=async(path,fields)=>{const r=await fetch(w.upload+path,{method:"POST",body:new URLSearchParams({mode:up.elements.mode.value,...fields})});
if(r.redirected)location=r.url;
if(!r.ok)throw r.status===400?w.type:"{}: "+new DOMParser().parseFromString(await r.text(),"text/html").querySelector("main p")?.textContent;return r};
const put=(url,file)=>new Promise((done,failed)=>{const x=new XMLHttpRequest();x.open("PUT",url);x.setRequestHeader("Content-Type",file.type);x.upload.onprogress=e=>{bar.value=e.loaded/e.total};x.onload=()=>x.status===200?done():failed();x.onerror=()=>failed();x.send(file)});
const send=async file=>{const say=word=>{state.textContent=word.replace("{}",()=>file.name)};
if(!input.accept.split(",").includes(file.type))return say(w.type);
if(!file.size||file.size>w.max)return say(w.size);
say(w.sending);bar.value=0;bar.hidden=false;
try{const t=await(await post("",{file_name:file.name,file_size:file.size,mime_type:file.type})).json();
await put(t.upload_url,file);await post(`/${t.id}/complete`,{});say(w.done)}catch(why){say(typeof why==="string"?why:w.failed)}
bar.hidden=true;tick()};
let queue=Promise.resolve();const add=files=>{for(const file of[...files])queue=queue.then(()=>send(file))};
up.hidden=false;input.addEventListener("change",()=>{add(input.files);input.value=""});
up.addEventListener("dragover",e=>e.preventDefault());up.addEventListener("drop",e=>{e.preventDefault();add(e.dataTransfer.files)})}
const root=d.querySelector("[data-refresh]");if(!root)return;
const usual=1000*(Number(root.dataset.refresh)||10);let wait=usual,etag="",timer;
const busy=el=>el.contains(d.activeElement)||el.querySelector("details[open],dialog[open]")||!getSelection().isCollapsed&&el.contains(getSelection().anchorNode);
const tick=async()=>{clearTimeout(timer);
if(!d.hidden&&navigator.onLine)try{
const r=await fetch(location.href,{headers:etag?{"If-None-Match":etag}:{},cache:"no-store",redirect:"manual",signal:AbortSignal.timeout(15000)});
if(r.type==="opaqueredirect"||r.status===401){if(!typed())return location.reload();
const m=d.getElementById("main"),p=d.createElement("div");p.className="alert warn";p.setAttribute("role","alert");p.textContent=m.dataset.ended;m.prepend(p);return}
if(r.ok){const n=new DOMParser().parseFromString(await r.text(),"text/html");let all=true;
for(const el of d.querySelectorAll("[data-refresh]")){const m=n.getElementById(el.id);if(!m)continue;if(busy(el)){all=false;continue}
for(const b of m.querySelectorAll("[data-copy]"))b.hidden=false;if(m.outerHTML!==el.outerHTML)el.replaceWith(m)}
etag=all?r.headers.get("etag")||"":"";wait=usual}else if(r.status!==304)throw 0;else wait=usual
}catch{wait=Math.min(wait*2,120000)}
if(d.querySelector("[data-refresh]"))timer=setTimeout(tick,wait)};
timer=setTimeout(tick,wait);d.addEventListener("visibilitychange",()=>{if(!d.hidden)tick()});
})();
