"""Model families: one program in the language and one small binding file each."""
