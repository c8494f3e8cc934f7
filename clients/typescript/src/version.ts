// The package's version, as package.json has it; its check compares them.

export const version = '0.1.0'
