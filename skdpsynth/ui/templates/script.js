// Shows how far the work is, and goes on when it has ended.
"use strict";
const bar = document.getElementById("bar");
const doing = document.getElementById("doing");
const seconds = document.getElementById("seconds");

async function look() {
  try {
    const state = await (await fetch("state", { cache: "no-store" })).json();
    if (state.is_over) return location.replace("job");
    if (state.total) {
      bar.max = state.total;
      bar.value = state.done;
    } else {
      bar.removeAttribute("value");
    }
    const text = state.doing || "Starting";
    if (doing.textContent !== text) doing.textContent = text;
    seconds.textContent = state.seconds;
  } catch {
    doing.textContent = "The program does not answer: perhaps it was ended.";
  }
  setTimeout(look, 700);
}

look();
