"use strict";
// Zooms into timelines and names the slice under the pointer. Everything it needs is in the figure: positions in data-view, times in the
// CSV below. Without this script the page shows the same at a fixed scale.
(() => {
	const tip = document.createElement("div");
	tip.className = "tip";
	tip.hidden = true;
	document.body.append(tip);

	function show(event, text) {
		tip.textContent = text;
		tip.hidden = !text;
		const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
		tip.style.left = Math.max(4, x) + "px";
		tip.style.top = event.clientY + 16 + "px";
	}

	function amount(ns) {
		const [unit, name] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
		return Number((ns / unit).toPrecision(4)) + " " + name;
	}

	function label(time, span) {
		const [unit, name] = span >= 2e9 ? [1e9, "s"] : span >= 2e6 ? [1e6, "ms"] : span >= 2e3 ? [1e3, "us"] : [1, "ns"];
		return Number((time / unit).toFixed(6)) + " " + name;
	}

	// Lines "cpu,from,to,task"; a task's name may be quoted.
	function read(csv, names) {
		const tasks = new Map(names.map((name, index) => [name, index]));
		return csv.trimEnd().split("\n").slice(1).map((line) => {
			const [cpu, from, to] = line.split(",", 3);
			let name = line.slice(cpu.length + from.length + to.length + 3);
			if (name.startsWith('"'))
				name = name.slice(1, -1).replaceAll('""', '"');
			return { cpu: cpu === "wait" ? -1 : Number(cpu), from: Number(from), to: Number(to), task: tasks.get(name) };
		}).filter((row) => row.task !== undefined);
	}

	class Timeline {
		constructor(figure) {
			this.frame = figure.querySelector("[data-view]");
			this.view = JSON.parse(this.frame.dataset.view);
			this.svg = this.frame.querySelector("svg");
			this.live = this.svg.querySelector("g.live");
			this.rows = read(figure.querySelector("pre").textContent, this.view.tasks.map((task) => task.name));
			this.from = 0;
			this.to = this.view.span_ns;
			this.tools(figure);
			this.listen();
		}

		tools(figure) {
			const bar = document.createElement("div");
			bar.className = "tools";
			const button = (text, title, action) => {
				const element = document.createElement("button");
				element.type = "button";
				element.textContent = text;
				element.title = title;
				element.addEventListener("click", action);
				bar.append(element);
			};
			button("+", "Zoom in", () => this.zoom(0.5));
			button("−", "Zoom out", () => this.zoom(2));
			button("‹", "Earlier", () => this.move(-0.3));
			button("›", "Later", () => this.move(0.3));
			button("All", "The whole timeline", () => this.set(0, this.view.span_ns));
			bar.append("Drag over a part to zoom into it.");
			figure.insertBefore(bar, this.frame);
		}

		listen() {
			let start = null;
			const band = this.make("rect", { y: 0, height: this.view.bottom, fill: "var(--link)", "fill-opacity": 0.15 });
			this.svg.addEventListener("pointerdown", (event) => {
				if (event.button === 0 && event.pointerType === "mouse" && this.lane(event)) {
					start = this.time(event);
					this.svg.setPointerCapture(event.pointerId);
					event.preventDefault();
				}
			});
			this.svg.addEventListener("pointermove", (event) => {
				if (start === null)
					return show(event, this.name(event));
				const [a, b] = [start, this.time(event)].sort((x, y) => x - y);
				band.setAttribute("x", this.x(a));
				band.setAttribute("width", this.x(b) - this.x(a));
				this.svg.append(band);
				show(event, amount(b - a));
			});
			this.svg.addEventListener("pointerup", (event) => {
				if (start === null)
					return;
				const [a, b] = [start, this.time(event)].sort((x, y) => x - y);
				start = null;
				band.remove();
				if (this.x(b) - this.x(a) > 4)
					this.set(a, b);
			});
			this.svg.addEventListener("pointercancel", () => { start = null; band.remove(); });
			this.svg.addEventListener("pointerleave", () => { tip.hidden = true; });
			this.svg.addEventListener("dblclick", () => this.set(0, this.view.span_ns));
		}

		zoom(factor) {
			const middle = (this.from + this.to) / 2;
			const half = (this.to - this.from) / 2 * factor;
			this.set(middle - half, middle + half);
		}

		move(part) {
			const by = (this.to - this.from) * part;
			const limited = Math.max(-this.from, Math.min(by, this.view.span_ns - this.to));
			this.set(this.from + limited, this.to + limited);
		}

		set(from, to) {
			this.from = Math.max(0, Math.round(from));
			this.to = Math.min(this.view.span_ns, Math.max(Math.round(to), this.from + 10));
			this.draw();
		}

		x(time) {
			return this.view.left + this.view.width * (time - this.from) / (this.to - this.from);
		}

		point(event) {
			return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
		}

		time(event) {
			const part = (this.point(event).x - this.view.left) / this.view.width;
			return this.from + Math.max(0, Math.min(1, part)) * (this.to - this.from);
		}

		// The lane under the pointer: a CPU or a task.
		lane(event) {
			const { x, y } = this.point(event);
			const view = this.view;
			if (x < view.left || x > view.left + view.width || y > view.bottom)
				return null;
			const within = (top, height) => top !== null && y >= top - 2 && y <= top + height + 2;
			const cpu = view.cpus.findIndex((top) => within(top, view.cpu_height));
			const task = view.tasks.findIndex((one) => within(one.top, view.task_height));
			return { cpu, task };
		}

		name(event) {
			const lane = this.lane(event);
			if (!lane)
				return "";
			const time = this.time(event);
			const row = this.rows.find((one) => one.from <= time && time < one.to &&
				(lane.cpu >= 0 ? one.cpu === lane.cpu : lane.task === one.task));
			if (!row)
				return lane.cpu >= 0 ? `CPU ${lane.cpu} runs none of the tasks` : "";
			const does = row.cpu < 0 ? "waits" : `runs on CPU ${row.cpu}`;
			return `${this.view.tasks[row.task].name} ${does} for ${amount(row.to - row.from)}, from ${amount(row.from)}`;
		}

		make(name, attributes, text) {
			const element = document.createElementNS(this.svg.namespaceURI, name);
			for (const [key, value] of Object.entries(attributes))
				element.setAttribute(key, value);
			if (text !== undefined)
				element.textContent = text;
			return element;
		}

		draw() {
			const view = this.view;
			const parts = [];
			const span = this.to - this.from;
			const least = Math.max(1, span / 9);
			const power = 10 ** Math.floor(Math.log10(least));
			const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
			for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
				const x = this.x(time);
				parts.push(this.make("line", { x1: x, x2: x, y1: view.top, y2: view.bottom, stroke: "var(--grid)" }));
				parts.push(this.make("text", { x, y: view.bottom + 15, "font-size": 12, "text-anchor": "middle" }, label(time, span)));
			}
			const boxes = view.tasks.map(() => "");
			let waits = "";
			const labels = [];
			const box = (a, b, top, height) => {
				const width = Math.max(0.3, b - a).toFixed(1);
				return `M${a.toFixed(1)} ${top}h${width}v${height}h-${width}z`;
			};
			for (const row of this.rows) {
				if (row.to <= this.from || row.from >= this.to)
					continue;
				const a = this.x(Math.max(row.from, this.from));
				const b = this.x(Math.min(row.to, this.to));
				const task = view.tasks[row.task];
				if (row.cpu < 0) {
					if (task.top !== null)
						waits += box(a, b, task.top + view.task_height / 3, view.task_height / 3);
					continue;
				}
				boxes[row.task] += box(a, b, view.cpus[row.cpu], view.cpu_height);
				if (task.top !== null)
					boxes[row.task] += box(a, b, task.top, view.task_height);
				if (b - a > (task.name.length + 1) * view.letter)
					labels.push([task.name, (a + b) / 2, view.cpus[row.cpu]]);
			}
			parts.push(this.make("path", { d: waits, fill: "var(--wait)" }));
			boxes.forEach((d, index) => parts.push(this.make("path", { d, fill: view.tasks[index].colour })));
			for (const [name, x, top] of labels)
				parts.push(this.make("text", { x, y: top + view.cpu_height / 2 + 4, "font-size": 11, "text-anchor": "middle", fill: "var(--on-task)" }, name));
			for (const mark of view.marks) {
				const a = this.x(Math.max(mark.from_ns, this.from));
				const b = this.x(Math.min(mark.to_ns, this.to));
				if (b > a)
					parts.push(this.make("rect", { x: a, y: mark.top, width: b - a, height: mark.height, fill: "none", stroke: "var(--mark)", "stroke-width": 1.5 }));
			}
			this.live.replaceChildren(...parts);
		}
	}

	for (const figure of document.querySelectorAll("figure.timeline"))
		new Timeline(figure);
})();
