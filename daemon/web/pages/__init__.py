"""Pages for people: what a store holds, in the browser, rendered here."""
