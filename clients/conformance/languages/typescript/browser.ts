// placeholder
export async function checkBrowser(_bundle: string): Promise<void> {}
