// A number to type, with a slider beside it where the range is small; both tell the server.
// A value of the server is taken only if the server had seen all that was changed here when it sent it:
// an older one, on its way meanwhile, would undo what a person typed.
export default {
  inheritAttrs: false,
  emits: ["change"], // else the browser's own event of this name would be told, too
  template: `
    <q-slider
      v-if="highest" :model-value="slid" @update:model-value="change"
      :min="1" :max="highest" :step="1" :aria-label="name + ', slider'" snap markers dense
    />
    <q-input
      v-bind="$attrs" :model-value="text" @update:model-value="change" :aria-label="name"
      type="number" :min="highest ? 1 : undefined" :max="highest" :step="highest ? 1 : 'any'"
      dense outlined hide-bottom-space no-error-icon
    />
  `,
  props: { name: String, value: String, seen: Number, highest: Number },
  data() {
    return { text: this.value, slid: Number(this.value), sent: this.seen };
  },
  watch: { value: "take", seen: "take" },
  methods: {
    put(text) {
      this.text = text;
      const number = Number(text); // what the range does not hold leaves the slider where it was
      if (Number.isInteger(number) && number >= 1 && number <= this.highest) this.slid = number;
    },
    take() {
      if (this.seen === this.sent) this.put(this.value);
    },
    change(value) {
      this.put(String(value ?? ""));
      this.sent += 1;
      this.$emit("change", this.text);
    },
  },
};
